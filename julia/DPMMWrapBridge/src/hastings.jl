# Splits and merges by all of the Hastings ratio, as Jain and Neal (2004) have it. The paper's ratio, which is the
# package's, leaves out how probable it was to propose just these labels. Where clusters overlap, that is what decides:
# half of all labels could as well have come out otherwise. The processes that hold the points work it out.

"Propose to split these clusters, the best ones first as far as there is room; the numbers of those that are born."
function split_by_full_ratio!(chain::Chain, ready::Vector{Int64}, room::Int)
    isempty(ready) && return Int64[]
    group = chain.model.group
    margins = split_log_ratio.(Ref(group), ready) .- sublabel_log_probs(chain, ready) .- log.(rand(length(ready)))
    best_first = sortperm(margins; rev = true)
    accepted = [ready[place] for place in best_first if margins[place] > 0]
    return carry_out_splits!(chain, sort!(accepted[1:min(max(room, 0), length(accepted))]))
end

"log of the ratio by which the package splits; minus infinity where a side is empty."
function split_log_ratio(group::local_group, number::Int64)
    cluster = group.local_clusters[number].cluster_params
    sides = (cluster.cluster_params_l, cluster.cluster_params_r)
    any(side -> side.suff_statistics.N == 0, sides) && return -Inf
    return log_split_prior(group, sides...) + sum(log_marginal, sides) - log_marginal(cluster.cluster_params)
end

"What the Chinese restaurant says of one table becoming two: log of α Γ(left) Γ(right) / Γ(both)."
function log_split_prior(group::local_group, left, right)
    one, other = Float64(left.suff_statistics.N), Float64(right.suff_statistics.N)
    return log(Float64(group.model_hyperparams.α)) + loggamma(one) + loggamma(other) - loggamma(one + other)
end

function log_marginal(part)
    posterior = DPMMSubClusters.calc_posterior(part.hyperparams, part.suff_statistics)
    return Float64(DPMMSubClusters.log_marginal_likelihood(part.hyperparams, posterior, part.suff_statistics))
end

"Split these clusters, by the package's own means; the numbers of both halves of each."
function carry_out_splits!(chain::Chain, left::Vector{Int64})
    isempty(left) && return left
    group = chain.model.group
    right = collect(length(group.local_clusters) .+ eachindex(left))
    resize!(group.local_clusters, last(right))
    for (one, other) in zip(left, right)
        DPMMSubClusters.split_cluster_local!(group, group.local_clusters[one], one, other)
    end
    points, labels, sublabels = group.points, group.labels, group.labels_subcluster
    @sync for process in chain.processes
        @spawnat process DPMMSubClusters.split_cluster_local_worker!(labels, sublabels, points, left, right)
    end
    return [left; right]
end

"Propose to merge all pairs of these clusters; how many have merged."
function merge_by_full_ratio!(chain::Chain, ready::Vector{Int64})
    group = chain.model.group
    pairs, margins = Tuple{Int64,Int64}[], Float64[]
    whole = Dict(number => log_marginal(group.local_clusters[number].cluster_params.cluster_params) for number in ready)
    for (place, one) in enumerate(ready), other in view(ready, place+1:length(ready))
        margin = merge_log_ratio(group, one, other, whole) - log(rand())
        # The probability that is still to be counted only makes it less.
        margin > 0 && (push!(pairs, (one, other)); push!(margins, margin))
    end
    isempty(pairs) && return 0
    margins .+= label_log_probs(chain, pairs)
    return carry_out_merges!(chain, disjoint(pairs, margins))
end

"log of one over the ratio of the split back, without the probability of its labels."
function merge_log_ratio(group::local_group, one::Int64, other::Int64, whole::Dict{Int64,Float64})
    left, right = map(number -> group.local_clusters[number].cluster_params.cluster_params, (one, other))
    both = DPMMSubClusters.aggregate_suff_stats(left.suff_statistics, right.suff_statistics)
    merged = DPMMSubClusters.cluster_parameters(left.hyperparams, left.distribution, both, left.hyperparams)
    return log_marginal(merged) - whole[one] - whole[other] - log_split_prior(group, left, right)
end

"Of pairs with a margin above zero those that can all be merged: each cluster once, the best first."
function disjoint(pairs::Vector{Tuple{Int64,Int64}}, margins::Vector{Float64})
    taken, chosen = Set{Int64}(), Tuple{Int64,Int64}[]
    for place in sortperm(margins; rev = true)
        margins[place] > 0 || break
        isdisjoint(taken, pairs[place]) || continue
        union!(taken, pairs[place])
        push!(chosen, pairs[place])
    end
    return chosen
end

"Merge these pairs, by the package's own means: the two become the subclusters of one. How many there are."
function carry_out_merges!(chain::Chain, pairs::Vector{Tuple{Int64,Int64}})
    isempty(pairs) && return 0
    group = chain.model.group
    into, absorbed = first.(pairs), last.(pairs)
    foreach((one, other) -> DPMMSubClusters.merge_clusters!(group, one, other), into, absorbed)
    @sync for process in chain.processes
        @spawnat process DPMMSubClusters.merge_clusters_worker!(group, into, absorbed)
    end
    return length(pairs)
end

"For each of these clusters the log probability with which the last sweep gave its points just their sublabels."
sublabel_log_probs(chain::Chain, clusters::Vector{Int64}) = summed(chain, sublabel_log_probs_here, clusters)

"For each pair the log probability with which the last sweep gave their points just the one of the two labels."
label_log_probs(chain::Chain, pairs::Vector{Tuple{Int64,Int64}}) = summed(chain, label_log_probs_here, pairs)

"A sum over the processes that hold the points."
function summed(chain::Chain, each, of_what)
    group = chain.model.group
    points, labels, sublabels = group.points, group.labels, group.labels_subcluster
    parts = [@spawnat(process, each(points, labels, sublabels, of_what)) for process in chain.processes]
    return sum(fetch, parts)
end

# The package leaves the parameters of the last sweep in globals of each process.

function sublabel_log_probs_here(points::DArray, labels::DArray, sublabels::DArray, clusters::Vector{Int64})
    here, own, sides = localpart(points), localpart(labels), localpart(sublabels)
    return map(clusters) do number
        members = findall(==(number), own)
        drawn = DPMMSubClusters.clusters_vector[number]
        choice_log_prob(view(here, :, members), (drawn.l_dist, drawn.r_dist), drawn.lr_weights, view(sides, members))
    end
end

function label_log_probs_here(points::DArray, labels::DArray, ::DArray, pairs::Vector{Tuple{Int64,Int64}})
    here, own = localpart(points), localpart(labels)
    members = Dict(number => findall(==(number), own) for number in unique(Iterators.flatten(pairs)))
    return map(pairs) do (one, other)
        both = [members[one]; members[other]]
        distributions = map(number -> DPMMSubClusters.clusters_vector[number].cluster_dist, (one, other))
        weights = [DPMMSubClusters.clusters_weights[one], DPMMSubClusters.clusters_weights[other]]
        chosen = [fill(1, length(members[one])); fill(2, length(members[other]))]
        choice_log_prob(view(here, :, both), distributions, weights, chosen)
    end
end

"log probability that each of these points chooses just the one of two distributions that it has chosen."
function choice_log_prob(points, distributions, weights, chosen)
    isempty(chosen) && return 0.0
    logs = zeros(Float32, length(chosen), 2)
    for side in 1:2
        own = view(logs, :, side)
        DPMMSubClusters.log_likelihood!(own, points, distributions[side])
        own .+= log(weights[side])
    end
    total = 0.0
    for (point, side) in enumerate(chosen)
        rivals_lead = Float64(logs[point, 3-side]) - Float64(logs[point, side])
        # Where neither has a density, the package takes either.
        total -= isnan(rivals_lead) ? log(2.0) : log1pexp(rivals_lead)
    end
    return total
end
