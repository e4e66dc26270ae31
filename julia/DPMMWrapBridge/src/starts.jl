# How a start reaches the points: in one process through their row numbers, with workers through a sample and a rule.

"With workers, a start sees at most this many points of a cluster."
const START_SAMPLE = 4096

"""
    begin_subclusters!(chain, start, clusters)

Have `start(rows, counts, sides)` divide the points of these clusters, all at once. `rows` are their row numbers
(from 0), one cluster after the other, `counts[i]` of them for the i-th; the start writes 0 or 1 for each into `sides`.
"""
function begin_subclusters!(chain::Chain, start, clusters::Vector{Int64})
    # The first one holds the outliers, which are never divided.
    first_cluster = chain.settings.outlier_weight > 0 ? 2 : 1
    clusters = filter(>=(first_cluster), clusters)
    isempty(clusters) && return
    wait_for_relabelling(chain.processes)
    if chain.processes == [myid()]
        begin_here!(chain, start, clusters)
    else
        begin_on_workers!(chain, start, clusters)
    end
    return
end

function begin_here!(chain::Chain, start, clusters::Vector{Int64})
    group = chain.model.group
    rows, counts = collect_rows(localpart(group.labels), clusters)
    sides = zeros(UInt8, length(rows))
    call(chain, start, rows, counts, sides)
    write_sides!(localpart(group.labels_subcluster), rows, sides)
    return
end

"Call back, and stop here if the callable failed."
function call(chain::Chain, callable, arguments...)
    callable(arguments...)
    chain.control[1] == GIVE_UP && throw(GivenUp())
    return
end

"The row numbers (from 0) of these clusters' points, one cluster after the other, and how many each has."
function collect_rows(labels::Vector{Int64}, clusters::Vector{Int64})
    place = zeros(Int, max(maximum(labels; init = 0), maximum(clusters)))
    place[clusters] .= eachindex(clusters)
    counts = zeros(Int64, length(clusters))
    @inbounds for label in labels
        place[label] > 0 && (counts[place[label]] += 1)
    end
    rows = Vector{Int64}(undef, sum(counts))
    filled = cumsum(counts) .- counts
    @inbounds for (row, label) in enumerate(labels)
        which = place[label]
        which > 0 && (rows[filled[which]+=1] = row - 1)
    end
    return rows, counts
end

function write_sides!(sublabels::Vector{Int64}, rows::Vector{Int64}, sides::Vector{UInt8})
    @inbounds for (row, side) in zip(rows, sides)
        sublabels[row+1] = 1 + side
    end
    return
end

# With workers the points stay where they are. Row numbers of a bounded sample come here, the start divides the
# sample, and what goes back is a rule: two densities, by which each worker divides its own points.

"A Gaussian by mean and whitening factor, with the logarithm of its weight and normaliser."
struct Gaussian
    mean::Vector{Float64}
    whitening::Matrix{Float64}
    offset::Float64
end

"A multinomial by the logarithms of its proportions, with that of its weight."
struct Multinomial
    log_proportions::Vector{Float64}
    offset::Float64
end

const Rule = NTuple{2,Union{Gaussian,Multinomial}}

function begin_on_workers!(chain::Chain, start, clusters::Vector{Int64})
    group = chain.model.group
    parts = [@spawnat(worker, sample_rows(group.labels, clusters)) for worker in chain.processes]
    samples = map(gather_sample, map(fetch, parts)...)
    rows, counts = reduce(vcat, samples), map(length, samples)
    sides = zeros(UInt8, length(rows))
    call(chain, start, rows, counts, sides)
    rules = Dict{Int64,Rule}()
    for (cluster, last, count) in zip(clusters, cumsum(counts), counts)
        own = last-count+1:last
        rule = rule_from_sample(chain, rows[own], sides[own])
        rule === nothing || (rules[cluster] = rule)
    end
    @sync for worker in chain.processes
        @spawnat worker apply_rules!(group.points, group.labels, group.labels_subcluster, rules)
    end
    return
end

"On a worker: for each cluster how many of its points are here, and the row numbers (from 0) of some of them."
function sample_rows(labels::DArray, clusters::Vector{Int64})
    first_row = first(first(localindices(labels)))
    rows, counts = collect_rows(localpart(labels), clusters)
    return map(cumsum(counts), counts) do last, count
        here = rows[last-count+1:last]
        length(here) > START_SAMPLE && (here = shuffle!(here)[1:START_SAMPLE])
        count, here .+ (first_row - 1)
    end
end

"Of one cluster: from each worker as many rows as its share of the points."
function gather_sample(parts...)
    share = min(1.0, START_SAMPLE / max(sum(first, parts), 1))
    return reduce(vcat, [some[1:min(length(some), floor(Int, share * count))] for (count, some) in parts])
end

"The densities of a divided sample's two sides; `nothing` if one side is empty."
function rule_from_sample(chain::Chain, rows::Vector{Int64}, sides::Vector{UInt8})
    all(in(sides), (0x00, 0x01)) || return nothing
    prior = chain.settings.prior
    return map((0x00, 0x01)) do side
        members = view(chain.data, :, rows[sides.==side] .+ 1)
        statistics = DPMMSubClusters.create_sufficient_statistics(prior, prior, members)
        density(DPMMSubClusters.calc_posterior(prior, statistics), log(size(members, 2)))
    end
end

function density(posterior::niw_hyperparams, log_weight::Float64)
    whitening = inv(cholesky(Symmetric(posterior.ψ)).L)
    return Gaussian(posterior.m, whitening, log_weight + logdet(whitening))
end

function density(posterior::multinomial_hyper, log_weight::Float64)
    concentration = Vector{Float64}(posterior.α)
    return Multinomial(log.(concentration ./ sum(concentration)), log_weight)
end

"On a worker: each point of these clusters goes to the more probable of its cluster's two sides."
function apply_rules!(points::DArray, labels::DArray, sublabels::DArray, rules::Dict{Int64,Rule})
    here, own_labels, own_sublabels = localpart(points), localpart(labels), localpart(sublabels)
    for column in axes(here, 2)
        rule = get(rules, own_labels[column], nothing)
        rule === nothing && continue
        point = view(here, :, column)
        own_sublabels[column] = log_density(rule[2], point) > log_density(rule[1], point) ? 2 : 1
    end
    return
end

log_density(side::Gaussian, point) = side.offset - sum(abs2, side.whitening * (point - side.mean)) / 2
log_density(side::Multinomial, point) = side.offset + dot(side.log_proportions, point)
