# The loop: the package's own moves in the package's own order, with a word to the caller after each iteration.

"What one iteration did, in the order in which `report` is told."
const Happened = @NamedTuple{
    clusters::Int,
    log_posterior::Float64,
    seconds::Float64,
    splits::Int,
    splits_proposed::Int,
    merges::Int,
    merges_proposed::Int,
}

"""
    fit(chain, start, report)

Run the chain. `start` divides new clusters (see [`begin_subclusters!`](@ref)); with `nothing` subclusters begin as
in the package. After each iteration `report(number, happened..., table)` is called (see
[`Happened`](@ref)), where `table` counts points by true and found cluster if a truth was given. Either may set
`chain.control[1]`.

Returns one of `:done`, `:stopped` and `:given_up`.
"""
function fit(chain::Chain, start, report)
    setglobal!(DPMMSubClusters, :use_smart_splits, start !== nothing)
    # The package names new clusters one by one. They begin together, when it has named them all.
    hook(group, cluster) = push!(chain.born, cluster)
    try
        return with_hook(() -> run(chain, start, report), hook)
    catch error
        error isa GivenUp && return :given_up
        worker = lost_worker(error)
        worker === nothing && rethrow()
        throw(ErrorException("worker process $worker of Julia ended during the fit"))
    end
end

function run(chain::Chain, start, report)
    clusters = DPMMSubClusters.initial_clusters
    DPMMSubClusters.init_first_clusters!(chain.model, clusters)
    begin_born!(chain, start)
    DPMMSubClusters.update_suff_stats_posterior!(chain.model.group)
    for iteration in 1:chain.settings.iterations
        happened = iterate!(chain, start, iteration)
        call(chain, report, iteration, happened..., table(chain))
        chain.control[1] == STOP && iteration < chain.settings.iterations && return :stopped
    end
    return :done
end

"Begin the subclusters of all new clusters. Their statistics are taken afterwards."
function begin_born!(chain::Chain, start)
    isempty(chain.born) || begin_subclusters!(chain, start, chain.born)
    empty!(chain.born)
    return
end

"One iteration: restricted Gibbs, then splits, then merges."
function iterate!(chain::Chain, start, iteration::Int)
    begun = time()
    group = chain.model.group
    # The last iterations take the most likely label and make no moves.
    hard = iteration >= chain.settings.iterations - DPMMSubClusters.argmax_sample_stop
    settling = iteration >= chain.settings.iterations - DPMMSubClusters.split_stop
    DPMMSubClusters.sample_clusters!(group, false)
    keep_finite!(group)
    parameters = map(DPMMSubClusters.create_thin_cluster_params, group.local_clusters)
    DPMMSubClusters.broadcast_cluster_params(parameters, group.weights)
    DPMMSubClusters.sample_labels!(group, hard, settling)
    DPMMSubClusters.sample_sub_clusters!(group)
    DPMMSubClusters.update_suff_stats_posterior!(group)
    DPMMSubClusters.reset_bad_clusters!(group)
    splits = merges = (0, 0)
    if !settling
        start === nothing || begin_anew!(chain, start)
        splits = split!(chain, start)
        merges = merge!(group)
    end
    keep_outliers!(chain)
    DPMMSubClusters.remove_empty_clusters!(group)
    clusters = length(group.local_clusters) - (chain.settings.outlier_weight > 0)
    posterior = Float64(DPMMSubClusters.calculate_posterior(chain.model))
    return Happened((clusters, posterior, time() - begun, splits..., merges...))
end

"Propose to split every cluster that is ready, as far as there is room; how many were accepted and proposed."
function split!(chain::Chain, start)
    group = chain.model.group
    ready = filter(ready_to_move, group.local_clusters)
    room = chain.settings.max_clusters - length(group.local_clusters) + (chain.settings.outlier_weight > 0)
    # The package stops all moves at its limit, merges too, and may jump over it: here some have to wait instead.
    waiting = length(ready) > room ? shuffle(ready)[max(room, 0)+1:end] : local_cluster[]
    foreach(cluster -> cluster.cluster_params.splittable = false, waiting)
    born = DPMMSubClusters.check_and_split!(group, false)
    begin_born!(chain, start)
    DPMMSubClusters.update_suff_stats_posterior!(group, born)
    foreach(cluster -> cluster.cluster_params.splittable = true, waiting)
    return length(born) ÷ 2, length(ready) - length(waiting)
end

function ready_to_move(cluster::local_cluster)
    parameters = cluster.cluster_params
    return parameters.splittable && parameters.cluster_params.suff_statistics.N > 1
end

function merge!(group::local_group)
    ready = count(ready_to_move, group.local_clusters)
    merged = DPMMSubClusters.check_and_merge!(group, false)
    return length(merged), ready * (ready - 1) ÷ 2
end

# Subclusters that have settled in a split that is always rejected would block their cluster for good. They begin
# anew; the cluster stays ready, so that what the start proposes is judged at once.
function begin_anew!(chain::Chain, start)
    chain.settings.fresh_start_after > 0 || return
    group = chain.model.group
    stale = settled(chain)
    isempty(stale) && return
    begin_subclusters!(chain, start, stale)
    for number in stale
        fill!(group.local_clusters[number].cluster_params.logsublikelihood_hist, -Inf)
    end
    DPMMSubClusters.update_suff_stats_posterior!(group, stale)
    return
end

"""
Clusters that may split, but whose subclusters have not become more likely for `fresh_start_after` iterations. Those that
still improve are left in peace: from a random start that takes long.
"""
function settled(chain::Chain)
    seen, stale = IdDict{Any,Tuple{Float64,Int}}(), Int64[]
    for (number, cluster) in enumerate(chain.model.group.local_clusters)
        parameters = cluster.cluster_params
        (number == 1 && chain.settings.outlier_weight > 0) && continue
        parameters.splittable || continue
        # A split or a merge gives a cluster new parameters, and with them a new count.
        best, waited = get(chain.waiting, parameters, (-Inf, 0))
        likelihood = Float64(parameters.logsublikelihood_hist[chain.settings.burnout])
        seen[parameters] = likelihood > best ? (likelihood, 0) : (best, waited + 1)
        if last(seen[parameters]) >= chain.settings.fresh_start_after
            push!(stale, number)
            seen[parameters] = (-Inf, 0)
        end
    end
    empty!(chain.waiting)
    Base.merge!(chain.waiting, seen)
    return stale
end

# `remove_empty_clusters!` keeps an outlier component without points, but renumbers the labels as if it had gone.
function keep_outliers!(chain::Chain)
    chain.settings.outlier_weight > 0 || return
    outliers = first(chain.model.group.local_clusters)
    outliers.points_count = max(outliers.points_count, 1)
    return
end

"Points by true and found cluster, counted where they lie; `nothing` without a truth."
function table(chain::Chain)
    chain.truth === nothing && return nothing
    labels, truth, clusters = chain.model.group.labels, chain.truth, length(chain.model.group.local_clusters)
    parts = [@spawnat(process, count_pairs(truth, labels, clusters)) for process in chain.processes]
    tables = map(fetch, parts)
    rows = maximum(part -> size(part, 1), tables)
    total = zeros(Int64, rows, clusters)
    for part in tables
        view(total, axes(part)...) .+= part
    end
    return total
end

function count_pairs(truth::DArray, labels::DArray, clusters::Int)
    own_truth, own_labels = localpart(truth), localpart(labels)
    counts = zeros(Int64, maximum(own_truth; init = Int32(1)), clusters)
    for (one, other) in zip(own_truth, own_labels)
        counts[one, other] += 1
    end
    return counts
end
