# A chain: the package's model, and what this bridge shares with its callers.

"What a cluster may follow: a Gaussian, or a multinomial over the counts of a point."
const Prior = Union{niw_hyperparams,multinomial_hyper}

"Everything that decides a fit, apart from the data and the callables."
Base.@kwdef struct Settings
    α::Float64
    prior::Prior
    iterations::Int
    burnout::Int
    seed::Int
    max_clusters::Int = typemax(Int)
    outlier_weight::Float64 = 0.0
    outlier_prior::Union{Prior,Nothing} = nothing
    "Iterations without progress after which subclusters begin anew; 0 for never, as the package does."
    fresh_start_after::Int = 0
    "Whether splits and merges are accepted by all of the Hastings ratio (hastings.jl), or as in the package."
    full_ratio::Bool = false
    "Shape and rate of the concentration's Gamma prior; a rate of 0 where it is fixed."
    α_shape::Float64 = 0.0
    α_rate::Float64 = 0.0
end

"What a callable wants of the chain; it writes one of these into `Chain.control[1]`. `SETTLE` is to come to an end in good order."
const GO_ON, STOP, GIVE_UP, SETTLE = 0, 1, 2, 3

"A callable has asked to give up: it failed, and keeps its own account of why."
struct GivenUp <: Exception end

"The best likelihood of a cluster's subclusters, the iterations since then, and how many it may be before they begin anew."
const Wait = @NamedTuple{best::Float64, waited::Int, patience::Int}

"The wait for a fresh start doubles up to so many times."
const LONGEST_PATIENCE = 16

"A chain over one data set. `control` is shared with the callables."
struct Chain
    settings::Settings
    data::Matrix{Float32}
    model::dp_parallel_sampling
    processes::Vector{Int}
    "True labels, from 1, which nothing but the report looks at."
    truth::Union{Vector{Int64},Nothing}
    control::Vector{Int64}
    "For clusters that may split: how their subclusters are doing."
    waiting::IdDict{Any,Wait}
    "The package's globals before this fit."
    globals::Dict{Symbol,Any}
end

"""
    niw(mean_strength, mean, degrees_of_freedom, scale)

The package's prior from the usual parameters; it keeps the scatter matrix divided by ν.
"""
niw(mean_strength, mean, degrees_of_freedom, scale) = niw_hyperparams(
    Float32(mean_strength),
    Vector{Float64}(mean),
    Float32(degrees_of_freedom),
    Matrix{Float64}(scale) ./ Float64(degrees_of_freedom),
)

"""
    points(address, dimensions, count)

The caller's float32 rows as a D×N matrix over the same memory. The caller keeps that memory alive.
"""
points(address::Integer, dimensions::Integer, count::Integer) =
    unsafe_wrap(Array, Ptr{Float32}(UInt(address)), (Int(dimensions), Int(count)))

"Copies of a caller's numbers. Julia would compile for seconds to convert them in any other way."
doubles(address::Int, sizes::Int...) = copy(unsafe_wrap(Array, Ptr{Float64}(UInt(address)), sizes))
integers(address::Int, count::Int) = copy(unsafe_wrap(Array, Ptr{Int64}(UInt(address)), count))

"""
    Chain(settings, data, labels, truth)

`labels` are those to begin with, from 1 without gaps; so is `truth`, which may also be `nothing`.
"""
function Chain(settings::Settings, data::Matrix{Float32}, labels, truth = nothing)
    count = size(data, 2)
    labels = Vector{Int64}(labels)
    length(labels) == count || throw(DimensionMismatch("$(length(labels)) labels for $count points"))
    processes = workers()
    count >= length(processes) || error("fewer points ($count) than worker processes ($(length(processes)))")
    clusters = maximum(labels)
    settings.outlier_weight > 0 && (labels .+= 1)
    hyperparameters = model_hyper_params(settings.prior, Float32(settings.α), count)
    group = local_group(
        hyperparameters,
        spread(data, processes),
        spread(labels, processes),
        spread(ones(Int64, count), processes),
        local_cluster[],
        Float32[],
    )
    # Last, because every task that is made until then takes from the random numbers.
    globals = set_globals(settings, clusters)
    return Chain(
        settings,
        data,
        dp_parallel_sampling(hyperparameters, group),
        processes,
        truth === nothing ? nothing : Vector{Int64}(truth),
        [GO_ON],
        IdDict{Any,Wait}(),
        globals,
    )
end

"""
The package keeps its run in globals. Every fit sets all of them, so that none is left over from the last.
Returns the values before, which [`release`](@ref) puts back.
"""
function set_globals(settings::Settings, clusters::Int)
    Random.seed!(settings.seed)
    values = (
        iterations = settings.iterations,
        random_seed = settings.seed,
        hyper_params = settings.prior,
        initial_clusters = clusters,
        α = Float32(settings.α),
        use_verbose = false,
        should_save_model = false,
        burnout_period = settings.burnout,
        max_num_of_clusters = settings.max_clusters,
        outlier_mod = settings.outlier_weight,
        outlier_hyper_params = settings.outlier_prior,
        use_smart_splits = false,
        ground_truth = nothing,
        hard_clustering = false,
        leader_dict = DPMMSubClusters.get_node_leaders_dict(),
    )
    names = filter(name -> isdefined(DPMMSubClusters, name), keys(values))
    before = Dict{Symbol,Any}(name => getglobal(DPMMSubClusters, name) for name in names)
    set_globals(pairs(values))
    return before
end

set_globals(values) = foreach(((name, value),) -> setglobal!(DPMMSubClusters, name, value), values)

"An array over these processes, cut along its last axis; in one process it is the array itself, not a copy."
function spread(array::Array, processes::Vector{Int})
    cuts = [ones(Int, ndims(array) - 1); length(processes)]
    processes == [myid()] && return DArray(_ -> array, size(array), processes, cuts)
    return distribute(array; procs = processes, dist = cuts)
end

"Where the chain's points, labels and sublabels lie in this process's memory."
addresses(chain::Chain) = map((:points, :labels, :labels_subcluster)) do name
    Int(UInt(pointer(localpart(getfield(chain.model.group, name)))))
end

"Labels and sublabels, from 1. In one process they are the chain's own memory."
labels(chain::Chain) = whole(chain, chain.model.group.labels)
sublabels(chain::Chain) = whole(chain, chain.model.group.labels_subcluster)
whole(chain::Chain, array::DArray) = chain.processes == [myid()] ? localpart(array) : Array(array)

"Let the worker processes forget the data, and put the package's globals back."
function release(chain::Chain)
    group = chain.model.group
    foreach(close, (group.points, group.labels, group.labels_subcluster))
    set_globals(chain.globals)
    return
end
