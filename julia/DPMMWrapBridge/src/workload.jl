# A small fit while the package is compiled. What it compiles is kept, so that a user's first fit, and every worker
# process, need not compile the sampler again: that takes most of a minute.

function warm_up()
    rng, side = MersenneTwister(1), (1:200)' .% 2
    zero, scale = zeros(2), Matrix(5.0I, 2, 2)
    mean, scatter = doubles(Int(pointer(zero)), 2), doubles(Int(pointer(scale)), 2, 2)
    warm_up(niw(1.0, mean, 5.0, scatter), Float32.(randn(rng, 2, 200) .+ 20 .* side))
    warm_up(dirichlet([0.1, 0.1]), Float32.(rand(rng, 0:3, 2, 200) .+ 20 .* [side; 1 .- side]))
    return
end

"""
Fits by both ratios. They begin with quarters of the data, so that clusters merge, too.
"""
function warm_up(prior::Prior, data::Matrix{Float32})
    quarters = collect(1:200) .% 4 .+ 1
    for full_ratio in (true, false)
        settings = Settings(;
            α = 10.0, prior, iterations = 20, burnout = 2, seed = 1, fresh_start_after = 1, full_ratio, α_shape = 1.0,
            α_rate = full_ratio ? 0.1 : 0.0,
        )
        chain = Chain(settings, points(Int(pointer(data)), size(data)...), integers(Int(pointer(quarters)), 200), quarters)
        start(rows, counts, sides) = sides .= data[1, rows.+1] .> 10
        fit(chain, start, (_...) -> nothing)
        labels(chain), sublabels(chain), addresses(chain)
        release(chain)
    end
    return
end

# PrecompileTools comes with the package's own dependencies, so that no project has to name it. Should it be missing,
# the first fit compiles as Julia always does.
let tools = Base.PkgId(Base.UUID("aea7be01-6a6a-4083-8856-8a6e6704d82a"), "PrecompileTools")
    if haskey(Base.loaded_modules, tools)
        workload = GlobalRef(Base.loaded_modules[tools], Symbol("@compile_workload"))
        Core.eval(@__MODULE__, Expr(:macrocall, workload, LineNumberNode(@__LINE__, @__FILE__), :(warm_up())))
    end
end
