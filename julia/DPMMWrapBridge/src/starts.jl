# How a start reaches the points: in one process through their row numbers, with workers through a sample and a rule.

"With workers, a start sees at most this many points of a cluster."
const START_SAMPLE = 4096

"""
    begin_subclusters!(chain, start, cluster)

Have `start(count)` divide a cluster's points. Clusters that cannot be divided keep what they have.
"""
function begin_subclusters!(chain::Chain, start, cluster::Int64)
    chain.settings.outlier_weight > 0 && cluster == 1 && return
    wait_for_relabelling(chain.processes)
    if chain.processes == [myid()]
        begin_here!(chain, start, cluster)
    else
        begin_on_workers!(chain, start, cluster)
    end
    return
end

function begin_here!(chain::Chain, start, cluster::Int64)
    group = chain.model.group
    count = collect_rows!(chain.rows, localpart(group.labels), cluster)
    count > 1 || return
    call(chain, start, count)
    write_sides!(localpart(group.labels_subcluster), chain.rows, chain.sides, count)
    return
end

"Call back, and stop here if the callable failed."
function call(chain::Chain, callable, arguments...)
    callable(arguments...)
    chain.control[1] == GIVE_UP && throw(GivenUp())
    return
end

function collect_rows!(rows::Vector{Int64}, labels::Vector{Int64}, cluster::Int64)
    count = 0
    @inbounds for row in eachindex(labels)
        if labels[row] == cluster
            count += 1
            rows[count] = row - 1
        end
    end
    return count
end

function write_sides!(sublabels::Vector{Int64}, rows::Vector{Int64}, sides::Vector{UInt8}, count::Int)
    @inbounds for place in 1:count
        sublabels[rows[place]+1] = 1 + sides[place]
    end
    return
end

# With workers the points stay where they are. Row numbers of a bounded sample come here, the start divides the
# sample, and what goes back is a rule: two Gaussians, by which each worker divides its own points.

"Two Gaussians by mean and whitening factor, with the logarithm of their weights and normalisers."
struct Rule
    means::Vector{Vector{Float64}}
    whitening::Vector{Matrix{Float64}}
    offsets::Vector{Float64}
end

function begin_on_workers!(chain::Chain, start, cluster::Int64)
    labels = chain.model.group.labels
    parts = [@spawnat(worker, sample_rows(labels, cluster)) for worker in chain.processes]
    count = gather_sample!(chain.rows, map(fetch, parts))
    count > 1 || return
    call(chain, start, count)
    rule = rule_from_sample(chain, count)
    rule === nothing && return
    group = chain.model.group
    @sync for worker in chain.processes
        @spawnat worker apply_rule!(group.points, group.labels, group.labels_subcluster, cluster, rule)
    end
    return
end

"On a worker: how many of its points belong to the cluster, and the row numbers (from 0) of some of them."
function sample_rows(labels::DArray, cluster::Int64)
    first_row = first(first(localindices(labels)))
    members = findall(==(cluster), localpart(labels))
    count = length(members)
    length(members) > START_SAMPLE && (members = shuffle!(members)[1:START_SAMPLE])
    return count, members .+ (first_row - 2)
end

"From each worker as many rows as its share of the cluster; how many that makes."
function gather_sample!(rows::Vector{Int64}, parts)
    total = sum(first, parts)
    total > 0 || return 0
    share = min(1.0, length(rows) / total)
    taken = 0
    for (count, some) in parts
        use = min(length(some), floor(Int, share * count))
        copyto!(rows, taken + 1, some, 1, use)
        taken += use
    end
    return taken
end

function rule_from_sample(chain::Chain, count::Int)
    prior = chain.settings.prior
    sample = chain.data[:, view(chain.rows, 1:count).+1]
    rule = Rule([], [], [])
    for side in (0x00, 0x01)
        members = sample[:, view(chain.sides, 1:count).==side]
        isempty(members) && return nothing
        statistics = DPMMSubClusters.create_sufficient_statistics(prior, prior, members)
        posterior = DPMMSubClusters.calc_posterior(prior, statistics)
        whitening = inv(cholesky(Symmetric(posterior.ψ)).L)
        push!(rule.means, posterior.m)
        push!(rule.whitening, whitening)
        push!(rule.offsets, log(size(members, 2)) + logdet(whitening))
    end
    return rule
end

"On a worker: each point of the cluster goes to the more probable of the two."
function apply_rule!(points::DArray, labels::DArray, sublabels::DArray, cluster::Int64, rule::Rule)
    here, own_labels, own_sublabels = localpart(points), localpart(labels), localpart(sublabels)
    for column in axes(here, 2)
        own_labels[column] == cluster || continue
        point = view(here, :, column)
        left, right = log_density(rule, 1, point), log_density(rule, 2, point)
        own_sublabels[column] = right > left ? 2 : 1
    end
    return
end

log_density(rule::Rule, side::Int, point) =
    rule.offsets[side] - sum(abs2, rule.whitening[side] * (point - rule.means[side])) / 2
