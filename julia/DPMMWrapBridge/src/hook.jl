# The one place where the package is changed: what `smart_cluster_init!` does for a newly formed cluster.

"What `smart_cluster_init!` does instead of the package's own start; `nothing` when nobody has hooked it."
const HOOK = Ref{Any}(nothing)

"The world in which `smart_cluster_init!` still has the package's own method; 0 until it has been replaced."
const ORIGINAL_WORLD = Ref{UInt}(0)

"""
    with_hook(f, start)

Run `f()` with `start(group, cluster)` in place of the package's start; afterwards the package's own is back,
whatever happened. `f` runs in the newest world, where the replaced method is visible.
"""
function with_hook(f, start)
    HOOK[] === nothing || error("a fit is already running in this Julia process")
    replace_method()
    HOOK[] = start
    try
        return Base.invokelatest(f)
    finally
        HOOK[] = nothing
    end
end

"Is a start hooked in at this moment?"
hooked() = HOOK[] !== nothing

# The method is replaced once per process and not once per fit: each replacement would have Julia compile
# the package's callers again, for seconds.
function replace_method()
    ORIGINAL_WORLD[] == 0 || return
    ORIGINAL_WORLD[] = Base.get_world_counter()
    @eval DPMMSubClusters smart_cluster_init!(group::local_group, cluster_num::Int64) =
        $(begin_cluster!)(group, cluster_num)
    return
end

function begin_cluster!(group::local_group, cluster::Int64)
    start = HOOK[]
    start === nothing || return start(group, cluster)
    return Base.invoke_in_world(ORIGINAL_WORLD[], DPMMSubClusters.smart_cluster_init!, group, cluster)
end
