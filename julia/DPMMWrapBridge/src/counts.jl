# Points that are counts: their prior, and what the package does not do well for them.

"""
    dirichlet(concentration)

The package's prior over the proportions of counts.
"""
dirichlet(concentration) = multinomial_hyper(Vector{Float32}(concentration))

# For the points of a cluster, which come as a view, the package's own method gives the same numbers, but multiplies the
# points by themselves first and leaves the D×D products unused: with thousands of features that is nearly all it does.
function DPMMSubClusters.create_sufficient_statistics(
    ::multinomial_hyper,
    ::multinomial_hyper,
    points::SubArray{Float32,2},
)
    sums = vec(sum(copy(points); dims = 2))
    return DPMMSubClusters.multinomial_sufficient_statistics(size(points, 2), sums)
end

"What stands for the logarithm of a proportion of zero."
const LEAST_LOG_PROPORTION = Float32(log(1e-300))

# From a small concentration come proportions that are zero in double precision. Their logarithm times a count of zero is
# not a number, and a point without any number takes a label at random.
function keep_finite!(group::local_group)
    for cluster in group.local_clusters
        both = cluster.cluster_params
        for parameters in (both.cluster_params, both.cluster_params_l, both.cluster_params_r)
            keep_finite!(parameters.distribution)
        end
    end
    return
end

keep_finite!(::distribution_sample) = nothing
function keep_finite!(drawn::multinomial_dist)
    map!(value -> isfinite(value) ? value : LEAST_LOG_PROPORTION, drawn.α, drawn.α)
    return
end
