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
    nmi::Float64,
    α::Float64,
}

"""
    fit(chain, start, report)

Run the chain. `start` divides new clusters (see [`begin_subclusters!`](@ref)); with `nothing` subclusters begin as
in the package. After each iteration `report(number, happened...)` is called (see [`Happened`](@ref)). Either may set
`chain.control[1]`.

Returns one of `:done`, `:stopped` and `:given_up`.
"""
function fit(chain::Chain, start, report)
    # The package keeps its run in globals: there can be one at a time.
    RUNNING[] && error("a fit is already running in this Julia process")
    RUNNING[] = true
    try
        return run(chain, start, report)
    catch error
        error isa GivenUp && return :given_up
        worker = lost_worker(error, chain.processes)
        worker === nothing && rethrow()
        throw(ErrorException("worker process $worker of Julia$(place_of(worker)) ended during the fit"))
    finally
        RUNNING[], HAS_RUN[] = false, true
    end
end

const RUNNING, HAS_RUN = Ref(false), Ref(false)

"Is there a fit at this moment? Has there been one? The first compiles what the workload has not."
running() = RUNNING[]
has_run() = HAS_RUN[]

"Seconds that Julia has compiled since this package was loaded."
compiled_seconds() = Base.cumulative_compile_time_ns()[1] / 1e9

function __init__()
    # What was set while the workload ran is kept with what it compiled.
    HAS_RUN[] = false
    Base.cumulative_compile_timing(true)
    return
end

function run(chain::Chain, start, report)
    clusters = DPMMSubClusters.initial_clusters
    DPMMSubClusters.init_first_clusters!(chain.model, clusters)
    start === nothing || begin_subclusters!(chain, start, collect(eachindex(chain.model.group.local_clusters)))
    # Also where nothing has begun: the package makes one task here, too, and each takes from the random numbers.
    DPMMSubClusters.update_suff_stats_posterior!(chain.model.group)
    iteration, last = 0, chain.settings.iterations
    while iteration < last
        iteration += 1
        happened = iterate!(chain, start, last - iteration)
        call(chain, report, iteration, happened...)
        chain.control[1] == STOP && iteration < last && return :stopped
        # What the last iterations do is still to come.
        chain.control[1] == SETTLE && (last = min(last, iteration + 1 + DPMMSubClusters.split_stop))
    end
    return :done
end

"One iteration, with so many to come: restricted Gibbs, then splits, then merges."
function iterate!(chain::Chain, start, to_come::Int)
    begun = time()
    group = chain.model.group
    # The last iterations take the most likely label and make no moves.
    hard = to_come <= DPMMSubClusters.argmax_sample_stop
    settling = to_come <= DPMMSubClusters.split_stop
    DPMMSubClusters.sample_clusters!(group, false)
    keep_finite!(group)
    chain.settings.full_ratio && allow_moves!(group)
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
        merges = merge!(chain)
    end
    keep_outliers!(chain)
    DPMMSubClusters.remove_empty_clusters!(group)
    draw_concentration!(chain)
    clusters = length(group.local_clusters) - (chain.settings.outlier_weight > 0)
    posterior = Float64(DPMMSubClusters.calculate_posterior(chain.model)) + log_concentration_prior(chain)
    seconds, α = time() - begun, Float64(chain.model.model_hyperparams.α)
    return Happened((clusters, posterior, seconds, splits..., merges..., nmi(chain), α))
end

"""
A cluster may split and merge once its subclusters have been drawn for `burnout` iterations. The package compares its log
marginal likelihood with 1 / (burnout - 0.1) times the sum of the last ones, which exceeds their mean. Where they are
positive, as for narrow clusters in small units, it never allows a split.
"""
function allow_moves!(group::local_group)
    for cluster in group.local_clusters
        parameters = cluster.cluster_params
        history = view(parameters.logsublikelihood_hist, 1:DPMMSubClusters.burnout_period)
        parameters.splittable |= all(>(-Inf), history)
    end
    return
end

"Propose to split every cluster that is ready, as far as there is room; how many were accepted and proposed."
function split!(chain::Chain, start)
    group = chain.model.group
    ready = ready_to_move(chain)
    room = chain.settings.max_clusters - length(group.local_clusters) + (chain.settings.outlier_weight > 0)
    full = chain.settings.full_ratio
    born = full ? split_by_full_ratio!(chain, ready, room) : split_as_the_package!(group, ready, room)
    # The package would begin them itself (`smart_splits`), but before the points have their new labels.
    start === nothing || begin_subclusters!(chain, start, born)
    DPMMSubClusters.update_suff_stats_posterior!(group, born)
    return length(born) ÷ 2, full ? length(ready) : clamp(room, 0, length(ready))
end

# At its limit the package stops all moves, merges too, and may jump over it: here some have to wait instead.
function split_as_the_package!(group::local_group, ready::Vector{Int64}, room::Int)
    waiting = length(ready) > room ? shuffle(ready)[max(room, 0)+1:end] : Int64[]
    parameters = [group.local_clusters[number].cluster_params for number in waiting]
    foreach(one -> one.splittable = false, parameters)
    born = DPMMSubClusters.check_and_split!(group, false)
    foreach(one -> one.splittable = true, parameters)
    return born
end

"The numbers of the clusters that may split or merge."
function ready_to_move(chain::Chain)
    first_cluster = chain.settings.outlier_weight > 0 ? 2 : 1
    clusters = chain.model.group.local_clusters
    return filter(collect(first_cluster:length(clusters))) do number
        parameters = clusters[number].cluster_params
        parameters.splittable && parameters.cluster_params.suff_statistics.N > 1
    end
end

"Propose to merge all pairs of clusters that are ready; how many were accepted and proposed."
function merge!(chain::Chain)
    ready = ready_to_move(chain)
    full = chain.settings.full_ratio
    merged = full ? merge_by_full_ratio!(chain, ready) : length(DPMMSubClusters.check_and_merge!(chain.model.group, false))
    return merged, length(ready) * (length(ready) - 1) ÷ 2
end

# Subclusters that have settled in a split that is always rejected would block their cluster for good. They begin
# anew. By the package's ratio, what the start proposes is judged at once; all of the Hastings ratio needs sublabels that
# were drawn, with a probability that is known.
function begin_anew!(chain::Chain, start)
    chain.settings.fresh_start_after > 0 || return
    group = chain.model.group
    stale = settled(chain)
    isempty(stale) && return
    begin_subclusters!(chain, start, stale)
    for number in stale
        parameters = group.local_clusters[number].cluster_params
        fill!(parameters.logsublikelihood_hist, -Inf)
        parameters.splittable = !chain.settings.full_ratio
    end
    DPMMSubClusters.update_suff_stats_posterior!(group, stale)
    return
end

"""
Clusters that may split, but whose subclusters have not become more likely for `fresh_start_after` iterations. Those that
still improve are left in peace: from a random start that takes long. By all of the Hastings ratio the wait doubles with
each start that led nowhere.
"""
function settled(chain::Chain)
    seen, stale = IdDict{Any,Wait}(), Int64[]
    for (number, cluster) in enumerate(chain.model.group.local_clusters)
        parameters = cluster.cluster_params
        (number == 1 && chain.settings.outlier_weight > 0) && continue
        if !parameters.splittable
            # Subclusters that have begun anew are not ready yet; how patient they are is not forgotten.
            haskey(chain.waiting, parameters) && (seen[parameters] = chain.waiting[parameters])
            continue
        end
        # A split or a merge gives a cluster new parameters, and with them a new count.
        before = get(chain.waiting, parameters, Wait((-Inf, 0, chain.settings.fresh_start_after)))
        likelihood = Float64(parameters.logsublikelihood_hist[chain.settings.burnout])
        now = likelihood > before.best ? merge(before, (best = likelihood, waited = 0)) :
            merge(before, (waited = before.waited + 1,))
        if now.waited >= now.patience
            push!(stale, number)
            longest = LONGEST_PATIENCE * chain.settings.fresh_start_after
            now = Wait((-Inf, 0, chain.settings.full_ratio ? min(2 * now.patience, longest) : now.patience))
        end
        seen[parameters] = now
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

"Normalised mutual information with the truth; not a number without one. Nothing here takes from the random numbers."
function nmi(chain::Chain)
    chain.truth === nothing && return NaN
    found = DPMMSubClusters.mutualinfo(chain.truth, labels(chain); normed = true)
    # Neither tells points apart: they agree.
    return isnan(found) ? 1.0 : clamp(found, 0.0, 1.0)
end
