"""How loops become LLVM's code: as numba does it, in far fewer instructions.

numba writes some thirty instructions for an element of an array and a dozen for every variable that ends, all but a few
of which LLVM takes out again: most of the time of compiling goes into writing, reading and removing them. Here elements
of arrays, fields of NamedTuples, arithmetic of numbers and the counting of references are written as what is left of
them in the end; whatever else there is, is numba's. Functions that only compiled code calls (`InnerCompiler`) get no
machine code of their own. The machine code that is kept is the same.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir as llvm_ir
from numba.core import ir as numba_ir
from numba.core import types as known_types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, InlineOverloads, NativeLowering, NopythonRewrites
from numba.np.arrayobj import load_item, store_item

types: Any = known_types
MEMINFO, PARENT, NITEMS, ITEMSIZE, DATA, SHAPE, STRIDES = range(7)
"""The places of an array's fields."""
COUNTED: Any = types.MemInfoPointer(types.voidptr)
NUMBERS = (types.Number, types.Boolean)
ARITHMETIC = {
    getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "eq", "ne", "and_", "or_", "xor")
}
"""What numba has one implementation of for each pair of types, whether a side is a constant or not."""
LEFT_OUT = (NopythonRewrites, InlineOverloads)
"""Steps of numba's for expressions of whole arrays, of which our loops have none."""


class LeanLower(Lower):
    """numba's lowering, with less to write."""

    borrowed: set[str]
    """Variables that are what an argument is, or a part of it: whoever calls keeps that alive."""
    is_borrowing = False
    """Whether what is assigned now is borrowed."""

    def _find_singly_assigned_variable(self) -> None:
        super()._find_singly_assigned_variable()
        self.borrowed = self.borrowed_variables()
        first = self.blocks[min(self.blocks)]
        for name, block in assigned_once(self.func_ir).items():
            # It comes before everything else: no need for a place in memory.
            if block is first and (name in self.borrowed or not self.is_counted(self.typeof(name))):
                self._singly_assigned_vars.add(name)

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        self.is_borrowing = inst.target.name in self.borrowed
        try:
            return super().lower_assign(ty, inst)
        finally:
            self.is_borrowing = False

    def is_counted(self, kind: Any) -> bool:
        """Whether there are references in a value."""
        return bool(self.context.data_model_manager[kind].contains_nrt_meminfo())

    def references(self, kind: Any, value: Any) -> Any:
        """The counted references in a value, with their types."""
        if isinstance(kind, types.Array):
            yield COUNTED, self.builder.extract_value(value, MEMINFO)
        elif isinstance(kind, types.BaseTuple):
            for place, its_kind in enumerate(kind.types):
                if self.is_counted(its_kind):
                    yield from self.references(its_kind, self.builder.extract_value(value, place))
        elif self.is_counted(kind):
            yield kind, value

    def incref(self, typ: Any, val: Any) -> None:
        if self.is_borrowing:
            return
        for kind, value in self.references(typ, val):
            super().incref(kind, value)

    def decref(self, typ: Any, val: Any) -> None:
        for kind, value in self.references(typ, val):
            super().decref(kind, value)

    def storevar(self, value: Any, name: Any, argidx: Any = None) -> None:
        kind = self.typeof(name)
        self._alloca_var(name, kind)
        counted = self.is_counted(kind) and name not in self.borrowed
        if name in self._singly_assigned_vars or argidx is not None or counted:
            super().storevar(value, name, argidx)
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: Any) -> None:
        kind = self.typeof(name)
        if self.is_counted(kind) and name not in self.borrowed:
            super().delvar(name)
            return
        if name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)
        self._alloca_var(name, kind)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        place = self.field(expr)
        if place is None or self.typeof(expr.value.name).types[place] != resty:
            return super().lower_expr(resty, expr)
        value = self.builder.extract_value(self.loadvar(expr.value.name), place)
        self.incref(resty, value)
        return value

    def borrowed_variables(self) -> set[str]:
        """Arguments, their fields and rows, and theirs; none that is assigned to again."""
        once, found = assigned_once(self.func_ir), set[str]()
        statements = [one for block in self.blocks.values() for one in block.find_insts(numba_ir.Assign)]
        before = -1
        while len(found) > before:
            before = len(found)
            found |= {one.target.name for one in statements if one.target.name in once and self.is_part(one, found)}
        return set() if self.generator_info else found

    def is_part(self, statement: Any, borrowed: set[str]) -> bool:
        """Whether what is assigned is an argument, or a part of something borrowed, as it is taken below."""
        value = statement.value
        if isinstance(value, numba_ir.Arg):
            return True
        if isinstance(value, numba_ir.Var):
            return value.name in borrowed
        parts = ("getattr", "static_getitem", "getitem", "exhaust_iter")
        if not isinstance(value, numba_ir.Expr) or value.op not in parts or value.value.name not in borrowed:
            return False
        kind, place = self.typeof(value.value.name), self.field(value)
        if isinstance(kind, types.BaseTuple):
            whole = value.op == "exhaust_iter"
            return whole or (place is not None and kind.types[place] == self.typeof(statement.target.name))
        index = {"getitem": "index", "static_getitem": "index_var"}.get(value.op)
        index = None if index is None else getattr(value, index)
        rows = index is not None and bool(whole_numbers(kind, self.typeof(index.name)))
        return rows and not self.context.enable_boundscheck

    def field(self, expr: Any) -> int | None:
        """The place in a tuple that an expression asks for; None if it asks for something else."""
        if expr.op not in ("getattr", "static_getitem"):
            return None
        kind = self.typeof(expr.value.name)
        if expr.op == "getattr":
            named = isinstance(kind, types.BaseNamedTuple) and expr.attr in kind.fields
            return kind.fields.index(expr.attr) if named else None
        inside = isinstance(kind, types.BaseTuple) and isinstance(expr.index, int) and 0 <= expr.index < len(kind)
        return expr.index if inside else None

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        signature = self.fndesc.calltypes[expr]
        if op not in ARITHMETIC or not all(isinstance(kind, NUMBERS) for kind in signature.args):
            return super().lower_binop(resty, expr, op)
        sides = [
            self.context.cast(self.builder, self.loadvar(side.name), self.typeof(side.name), kind)
            for side, kind in zip((expr.lhs, expr.rhs), signature.args, strict=True)
        ]
        function = self.context.typing_context.resolve_value_type(op)
        own = function.get_call_type(self.context.typing_context, signature.args, {})
        found = self.context.get_function(function, own)(self.builder, sides)
        return self.context.cast(self.builder, found, signature.return_type, resty)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        kind = self.typeof(value.name)
        kinds = whole_numbers(kind, self.typeof(index.name))
        if not kinds or self.context.enable_boundscheck:
            return super().lower_getitem(resty, expr, value, index, signature)
        array = self.loadvar(value.name)
        data = self.element(kind, array, kinds, index)
        if len(kinds) < kind.ndim:
            result = self.view(kind, array, signature.return_type, data, len(kinds))
        else:
            result = load_item(self.context, self.builder, kind, data)
        return self.context.cast(self.builder, result, signature.return_type, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        kind, value_kind = self.typeof(target_var.name), self.typeof(value_var.name)
        kinds = whole_numbers(kind, self.typeof(index_var.name))
        one = len(kinds) == getattr(kind, "ndim", -1) and isinstance(value_kind, NUMBERS)
        if not one or self.context.enable_boundscheck:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        data = self.element(kind, self.loadvar(target_var.name), kinds, index_var)
        value = self.context.cast(self.builder, self.loadvar(value_var.name), value_kind, signature.args[2])
        value = self.context.cast(self.builder, value, signature.args[2], kind.dtype)
        return store_item(self.context, self.builder, kind, value, data)

    def element(self, kind: Any, array: Any, kinds: Any, index: Any) -> Any:
        """A pointer to an element of an array, or to the first of a view."""
        builder, shape = self.builder, self.builder.extract_value(array, SHAPE)
        several = isinstance(self.typeof(index.name), types.BaseTuple)
        index = self.loadvar(index.name)
        places = []
        for axis, its_kind in enumerate(kinds):
            one = builder.extract_value(index, axis) if several else index
            to = types.intp if its_kind.signed else types.uintp
            one = self.context.cast(builder, one, its_kind, to)
            if its_kind.signed and not (isinstance(one, llvm_ir.Constant) and one.constant >= 0):
                from_end = builder.add(one, builder.extract_value(shape, axis))
                one = builder.select(builder.icmp_signed("<", one, one.type(0)), from_end, one)
            places.append(one)
        data = builder.extract_value(array, DATA)
        if kind.layout == "C":
            at = places[0]
            for axis in range(1, kind.ndim):
                at = builder.mul(at, builder.extract_value(shape, axis))
                if axis < len(places):
                    at = builder.add(at, places[axis])
            return builder.gep(data, [at])
        strides = builder.extract_value(array, STRIDES)
        at = builder.mul(builder.extract_value(strides, 0), places[0])
        for axis in range(1, len(places)):
            at = builder.add(at, builder.mul(builder.extract_value(strides, axis), places[axis]))
        return builder.inttoptr(builder.add(builder.ptrtoint(data, at.type), at), data.type)

    def view(self, kind: Any, array: Any, result: Any, data: Any, first: int) -> Any:
        """The axes of an array from `first` on, beginning at `data`."""
        builder = self.builder
        shape, strides = builder.extract_value(array, SHAPE), builder.extract_value(array, STRIDES)
        found: Any = llvm_ir.Constant(self.context.get_value_type(result), llvm_ir.Undefined)
        for place in (MEMINFO, PARENT, ITEMSIZE):
            found = builder.insert_value(found, builder.extract_value(array, place), place)
        found = builder.insert_value(found, data, DATA)
        count: Any = None
        for axis in range(first, kind.ndim):
            length = builder.extract_value(shape, axis)
            count = length if count is None else builder.mul(count, length, flags=["nsw"])
            found = builder.insert_value(found, length, (SHAPE, axis - first))
            found = builder.insert_value(found, builder.extract_value(strides, axis), (STRIDES, axis - first))
        found = builder.insert_value(found, count, NITEMS)
        self.incref(result, found)
        return found


def assigned_once(function: Any) -> dict[str, Any]:
    """The variables that one statement assigns to, and its block."""
    found: dict[str, Any] = {}
    several = set()
    for block in function.blocks.values():
        for statement in block.find_insts(numba_ir.Assign):
            name = statement.target.name
            several.update({name} & found.keys())
            found[name] = block
    return {name: block for name, block in found.items() if name not in several}


def whole_numbers(kind: Any, index_kind: Any) -> tuple[Any, ...]:
    """The types of whole numbers that index an array of numbers; none if it is indexed otherwise."""
    if not isinstance(kind, types.Array) or not isinstance(kind.dtype, NUMBERS) or kind.layout not in "CA":
        return ()
    kinds = index_kind.types if isinstance(index_kind, types.BaseTuple) else (index_kind,)
    fits = len(kinds) <= kind.ndim and all(isinstance(one, types.Integer) for one in kinds)
    return tuple(kinds) if fits else ()


class LeanLibrary(JITCodeLibrary):
    """The code of a function that Python calls."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Not before everything that is called is linked in."""
        ll_module.data_layout = self._codegen._data_layout

    def _verify_declare_only_symbols(self) -> None:
        for function in self._final_module.functions:
            if function.is_declaration and function.name.startswith("_ZN"):
                raise AssertionError(f"{function.name} was not linked")


class InnerLibrary(LeanLibrary):
    """The code of a function that only compiled code calls: never optimised or made machine code by itself."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class LeanLowering(BaseNativeLowering):
    _name: Any = "lean_lowering"
    library_class: Any = LeanLibrary

    @property
    def lowering_class(self) -> Any:
        return LeanLower

    def run_pass(self, state: Any) -> Any:
        state.library = self.library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


@register_pass(mutates_CFG=True, analysis_only=False)
class InnerLowering(LeanLowering):
    _name: Any = "inner_lowering"
    library_class = InnerLibrary

    def run_pass(self, state: Any) -> Any:
        state.flags.no_compile = state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        super().run_pass(state)
        state.library._ensure_finalized()
        # numba knows a function by its machine code, and takes nothing but built-in ones for it: one of its own, which
        # fails whenever Python calls it.
        stand_in: Any = {}.__getitem__
        state.targetctx.insert_user_function(stand_in, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=stand_in)
        return True


REMEMBERED: dict[Any, Any] = {}
"""What numbers of some types give in an operation, which numba would ask dozens of its rules for, every time."""


@contextmanager
def remembering() -> Iterator[None]:
    """Look up once what an operation of numbers gives. For a time when nothing but our loops is compiled."""
    ask = types.BaseFunction.get_call_type

    def look_up(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws or not all(isinstance(kind, NUMBERS) for kind in args):
            return ask(self, context, args, kws)
        # With the function itself, which then stays what its number says.
        key = id(self), id(context), tuple(args)
        if key not in REMEMBERED:
            REMEMBERED[key] = self, ask(self, context, args, kws)
        return REMEMBERED[key][1]

    types.BaseFunction.get_call_type = look_up
    try:
        yield
    finally:
        types.BaseFunction.get_call_type = ask


class LeanCompiler(CompilerBase):
    """numba's compiler with the lowering from here."""

    lowering: Any = LeanLowering

    def _compile_core(self) -> Any:
        with remembering():
            return super()._compile_core()

    def define_pipelines(self) -> Any:
        manager = PassManager("nopython")
        for step, words in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            if step not in LEFT_OUT:
                manager.add_pass(self.lowering if step is NativeLowering else step, words)
        manager.finalize()
        return [manager]


class InnerCompiler(LeanCompiler):
    """The same for functions that only compiled code calls."""

    lowering = InnerLowering
