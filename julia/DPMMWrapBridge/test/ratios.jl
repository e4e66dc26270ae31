# Single numbers of the package and of the bridge, for comparison with another implementation of the same maths.
module Ratios

using DPMMWrapBridge: DPMMSubClusters, Prior
using Random

"The log marginal likelihood of these points in one cluster."
function log_marginal_likelihood(prior::Prior, data::Matrix{Float32})
    statistics = DPMMSubClusters.create_sufficient_statistics(prior, prior, data)
    posterior = DPMMSubClusters.calc_posterior(prior, statistics)
    return Float64(DPMMSubClusters.log_marginal_likelihood(prior, posterior, statistics))
end

"A cluster with these two subclusters, as the package holds it."
function divided_cluster(prior::Prior, left::Matrix{Float32}, right::Matrix{Float32})
    parts = map((hcat(left, right), left, right)) do data
        statistics = DPMMSubClusters.create_sufficient_statistics(prior, prior, data)
        posterior = DPMMSubClusters.calc_posterior(prior, statistics)
        distribution = DPMMSubClusters.sample_distribution(posterior)
        DPMMSubClusters.cluster_parameters(prior, distribution, statistics, posterior)
    end
    return DPMMSubClusters.splittable_cluster_params(parts..., [0.5, 0.5], true, zeros(Float32, 5))
end

"Would the package split this cluster, with this seed?"
function splits(cluster, α::Real, seed::Integer)
    decision = zeros(Float32, 1)
    Random.seed!(seed)
    DPMMSubClusters.should_split_local!(decision, cluster, Float32(α), false)
    return decision[1] == 1
end

"Would the package merge the two subclusters if they were clusters, with this seed?"
function merges(cluster, α::Real, seed::Integer)
    decision = zeros(Float32, 1)
    Random.seed!(seed)
    left, right = cluster.cluster_params_l, cluster.cluster_params_r
    DPMMSubClusters.should_merge!(decision, left, right, Float32(α), false)
    return decision[1] == 1
end

"The logarithm of the number that such a decision compares its ratio with."
function log_threshold(seed::Integer)
    Random.seed!(seed)
    return log(rand())
end

end
