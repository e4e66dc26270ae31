using DPMMWrapBridge
using Distributed
using LinearAlgebra
using Random
using Statistics
using Test

import DPMMSubClusters

const Bridge = DPMMWrapBridge

include("ratios.jl")

"Well separated groups of points on a circle, which may be turned, and the group of each."
function groups(count = 2000, clusters = 4; seed = 1, turn = 0.0)
    rng = MersenneTwister(seed)
    truth = rand(rng, 1:clusters, count)
    angles = 2π .* (truth .+ turn) ./ clusters
    return Float32.(20 .* hcat(cos.(angles), sin.(angles))' .+ randn(rng, 2, count)), truth
end

"Counts in groups, each with proportions of its own, and the group of each point."
function counted_groups(count = 1000, clusters = 4, features = 12; seed = 1)
    rng = MersenneTwister(seed)
    truth = rand(rng, 1:clusters, count)
    proportions = rand(rng, features, clusters) .^ 4
    drawn = zeros(Float32, features, count)
    for (point, group) in enumerate(truth), _ in 1:60
        up_to = cumsum(proportions[:, group])
        drawn[searchsortedfirst(up_to, rand(rng) * last(up_to)), point] += 1
    end
    return drawn, truth
end

prior() = Bridge.niw(1.0, zeros(2), 5.0, 5.0 * [1 0; 0 1])
settings(; arguments...) =
    Bridge.Settings(; α = 10.0, prior = prior(), iterations = 30, burnout = 5, seed = 1, arguments...)
silent(arguments...) = nothing

"A start that cuts each cluster across its middle, along the first axis."
function cut(chain)
    return function (rows, counts, sides)
        for (last, count) in zip(cumsum(counts), counts)
            own = last-count+1:last
            first_axis = chain.data[1, rows[own].+1]
            count > 0 && (sides[own] .= first_axis .> median(first_axis))
        end
    end
end

"How well two labellings agree: the share of points in the most common partner of their cluster."
agreement(labels, truth) =
    mean(maximum(count(==(t), truth[labels.==k]) for t in unique(truth)) / sum(labels .== k) for k in unique(labels))

@testset "DPMMWrapBridge" begin
    data, truth = groups()
    ones_everywhere = ones(Int, length(truth))

    @testset "rows of clusters, one after the other" begin
        rows, counts = Bridge.collect_rows([2, 1, 3, 2, 3, 3], [3, 4, 2])
        @test counts == [3, 0, 2]
        @test rows == [2, 4, 5, 0, 3]
    end

    @testset "the data are not copied, the labels are the chain's own" begin
        chain = Bridge.Chain(settings(), data, ones_everywhere)
        where_points, where_labels, where_sublabels = Bridge.addresses(chain)
        @test where_points == UInt(pointer(data))
        @test where_labels == UInt(pointer(Bridge.labels(chain)))
        @test where_sublabels == UInt(pointer(Bridge.sublabels(chain)))
        wrapped = Bridge.points(UInt(pointer(data)), size(data)...)
        @test wrapped == data && pointer(wrapped) == pointer(data)
        Bridge.release(chain)
    end

    @testset "the loop is the package's own" begin
        # Two halves of each group, which merge; and one cluster of everything, which splits. 20 is the package's burnout.
        halves = 2 .* truth .- (eachindex(truth) .% 2)
        for (burnout, iterations, first_labels) in ((5, 30, halves), (20, 120, ones_everywhere))
            own = settings(; burnout, iterations)
            chain = Bridge.Chain(own, data, first_labels)
            moves = Ref(0)
            count_moves(number, happened...) = moves[] += happened[4] + happened[6]
            @test Bridge.fit(chain, nothing, count_moves) == :done
            other = Bridge.Chain(own, data, first_labels)
            DPMMSubClusters.init_first_clusters!(other.model, maximum(first_labels))
            DPMMSubClusters.run_model(other.model, 1)
            @test Bridge.labels(chain) == Bridge.labels(other)
            @test Bridge.sublabels(chain) == Bridge.sublabels(other)
            @test maximum(Bridge.labels(chain)) == 4 && moves[] >= 1
        end
    end

    @testset "a start is asked for every new cluster, after the relabelling" begin
        chain = Bridge.Chain(settings(), data, ones_everywhere)
        start, sizes = cut(chain), Int[]
        watching(rows, counts, sides) = (append!(sizes, counts); start(rows, counts, sides))
        labels = Bridge.labels(chain)
        told = []
        report(number, happened...) = push!(told, (; number, splits = happened[4], clusters = happened[1]))
        @test Bridge.fit(chain, watching, report) == :done
        @test sizes[1] == length(truth)
        splits = sum(line.splits for line in told)
        @test splits >= 3
        @test length(sizes) == 1 + 2 * splits
        # Without the wait the first split would be seen as a whole cluster and an empty one.
        @test sizes[2] + sizes[3] == length(truth) && 0 < sizes[2] < length(truth)
        @test [line.number for line in told] == 1:30
        @test told[end].clusters == length(unique(labels)) == 4
        @test agreement(labels, truth) > 0.99
    end

    @testset "what a start writes is what the chain has" begin
        chain = Bridge.Chain(settings(), data, ones_everywhere)
        Bridge.begin_subclusters!(chain, cut(chain), [1])
        @test Bridge.sublabels(chain) == 1 .+ (data[1, :] .> median(data[1, :]))
    end

    @testset "giving up and stopping" begin
        chain = Bridge.Chain(settings(), data, ones_everywhere)
        failing(arguments...) = chain.control[1] = Bridge.GIVE_UP
        @test Bridge.fit(chain, failing, silent) == :given_up
        @test !Bridge.running()
        chain = Bridge.Chain(settings(), data, ones_everywhere)
        numbers = Int[]
        stop_at_three(number, rest...) = (push!(numbers, number); number == 3 && (chain.control[1] = Bridge.STOP))
        @test Bridge.fit(chain, cut(chain), stop_at_three) == :stopped
        @test numbers == 1:3
        throwing(arguments...) = error("from a start")
        chain = Bridge.Chain(settings(), data, ones_everywhere)
        @test_throws ErrorException("from a start") Bridge.fit(chain, throwing, silent)
        @test !Bridge.running()
    end

    @testset "labels to begin with, a limit, outliers, a truth" begin
        chain = Bridge.Chain(settings(iterations = 8), data, truth)
        counts = Int[]
        Bridge.fit(chain, cut(chain), (number, clusters, rest...) -> push!(counts, clusters))
        @test counts[1] == 4
        limited = Bridge.Chain(settings(max_clusters = 2), data, ones_everywhere)
        empty!(counts)
        Bridge.fit(limited, cut(limited), (number, clusters, rest...) -> push!(counts, clusters))
        @test maximum(counts) == 2
        far = hcat(data, Float32[300 -300; 300 -300])
        broad = Bridge.niw(1000.0, zeros(2), 1000.0, 1000.0 * 2.0e4 * [1 0; 0 1])
        wide = settings(outlier_weight = 0.01, outlier_prior = broad)
        with_outliers = Bridge.Chain(wide, far, ones(Int, size(far, 2)))
        Bridge.fit(with_outliers, cut(with_outliers), silent)
        @test Bridge.labels(with_outliers)[end-1:end] == [1, 1]
        @test count(==(1), Bridge.labels(with_outliers)) < 50
    end

    @testset "the truth is looked at, and changes nothing" begin
        told = map((nothing, truth)) do known
            chain = Bridge.Chain(settings(full_ratio = true), data, ones_everywhere, known)
            seen = []
            Bridge.fit(chain, cut(chain), (rest...) -> push!(seen, rest))
            (labels = copy(Bridge.labels(chain)), sublabels = copy(Bridge.sublabels(chain)), nmi = [line[9] for line in seen])
        end
        @test told[1].labels == told[2].labels && told[1].sublabels == told[2].sublabels
        @test all(isnan, told[1].nmi)
        @test last(told[2].nmi) > 0.99 && all(0 .<= told[2].nmi .<= 1)
        alike = Bridge.Chain(settings(), data, ones_everywhere, ones_everywhere)
        @test Bridge.nmi(alike) == 1
    end

    @testset "all of the Hastings ratio" begin
        # Two that overlap: what a split is credited with is that its labels were so unlikely.
        rng = MersenneTwister(2)
        sides = rand(rng, 1:2, 3000)
        close = Float32.(randn(rng, 2, 3000) .+ 3 .* [sides'; zeros(1, 3000)])
        found = map((false, true)) do full_ratio
            chain = Bridge.Chain(settings(; full_ratio, iterations = 100), close, ones(Int, 3000))
            Bridge.fit(chain, cut(chain), silent)
            maximum(Bridge.labels(chain))
        end
        @test found == (1, 2)

        # Quarters of one Gaussian merge to the last, though by chance none of its labels says which quarter it is of.
        one = Float32.(randn(MersenneTwister(3), 2, 1000))
        chain = Bridge.Chain(settings(full_ratio = true, iterations = 60), one, rand(MersenneTwister(4), 1:4, 1000))
        merged = Int[]
        Bridge.fit(chain, nothing, (number, happened...) -> push!(merged, happened[6]))
        @test maximum(Bridge.labels(chain)) == 1 && sum(merged) >= 3

        # The probabilities themselves, against a plain computation from the parameters that drew the labels.
        chain = Bridge.Chain(settings(full_ratio = true), close, sides)
        DPMMSubClusters.init_first_clusters!(chain.model, 2)
        DPMMSubClusters.group_step(chain.model.group, true, false, false)
        drawn, weights = DPMMSubClusters.clusters_vector, DPMMSubClusters.clusters_weights
        density(point, one) = -(logdet(Float64.(one.Σ)) + dot(point - one.μ, Float64.(one.Σ) \ (point - one.μ))) / 2
        of_choice(logs, chosen) = logs[chosen] - log(sum(exp.(logs)))
        labels, sublabels = Bridge.labels(chain), Bridge.sublabels(chain)
        points = [Float64.(close[:, row]) for row in axes(close, 2)]
        expected = map(1:2) do number
            own = drawn[number]
            logs(point) = [density(point, own.l_dist), density(point, own.r_dist)] .+ log.(own.lr_weights)
            sum(of_choice(logs(points[row]), sublabels[row]) for row in findall(==(number), labels))
        end
        @test Bridge.sublabel_log_probs(chain, [1, 2]) ≈ expected rtol = 1e-4
        logs(point) = [density(point, own.cluster_dist) for own in drawn] .+ log.(weights)
        @test only(Bridge.label_log_probs(chain, [(1, 2)])) ≈ sum(of_choice.(logs.(points), labels)) rtol = 1e-4

        # No more clusters than are allowed; merges go on.
        counts = Int[]
        limited = Bridge.Chain(settings(full_ratio = true, max_clusters = 3), data, ones_everywhere)
        Bridge.fit(limited, cut(limited), (number, clusters, rest...) -> push!(counts, clusters))
        @test maximum(counts) == 3
        @test Bridge.disjoint([(1, 2), (2, 3), (4, 5), (6, 7)], [1.0, 2.0, 0.5, -1.0]) == [(2, 3), (4, 5)]
    end

    @testset "the concentration is learned, or left alone" begin
        for (rate, fixed) in ((0.0, true), (0.1, false))
            chain = Bridge.Chain(settings(full_ratio = true, α_shape = 1.0, α_rate = rate), data, ones_everywhere)
            concentrations = Float64[]
            Bridge.fit(chain, cut(chain), (rest...) -> push!(concentrations, last(rest)))
            @test all(==(10.0), concentrations) == fixed
            @test all(>(0), concentrations)
        end
        # With so many points and 4 clusters, Escobar and West's draws have a mean of a half or so.
        chain = Bridge.Chain(settings(α_shape = 1.0, α_rate = 0.1), data, truth)
        DPMMSubClusters.init_first_clusters!(chain.model, 4)
        draws = map(1:2000) do _
            Bridge.draw_concentration!(chain)
            Float64(chain.model.model_hyperparams.α)
        end
        # p(α | K, N) by summing over a grid.
        grid = 0.001:0.001:20
        logs = [log(0.1) - 0.1 * α + 4 * log(α) + Bridge.loggamma(α) - Bridge.loggamma(α + length(truth)) for α in grid]
        masses = exp.(logs .- maximum(logs))
        @test mean(draws) ≈ sum(grid .* masses) / sum(masses) rtol = 0.1
    end

    @testset "clusters in small units split, too" begin
        for unit in (1.0f0, 2.0f0^-8)
            prior = Bridge.niw(1.0, zeros(2), 5.0, 5.0 * unit^2 * [1 0; 0 1])
            chain = Bridge.Chain(settings(; prior, iterations = 60, burnout = 3, full_ratio = true), unit .* data, ones_everywhere)
            start(rows, counts, sides) = sides .= chain.data[1, rows.+1] .> chain.data[2, rows.+1]
            @test Bridge.fit(chain, start, silent) == :done
            @test maximum(Bridge.labels(chain)) == 4
        end
    end

    @testset "the package's globals are put back" begin
        names = (:α, :burnout_period, :iterations, :max_num_of_clusters, :random_seed, :initial_clusters)
        globals() = map(name -> getglobal(DPMMSubClusters, name), names)
        before = globals()
        chain = Bridge.Chain(settings(α = 3.0, iterations = 7, max_clusters = 9, seed = 8), data, ones_everywhere)
        @test globals() == (3.0f0, 5, 7, 9, 8, 1)
        @test Bridge.fit(chain, nothing, silent) == :done
        Bridge.release(chain)
        @test globals() == before != (3.0f0, 5, 7, 9, 8, 1)
    end

    @testset "coming to an end in good order" begin
        chain = Bridge.Chain(settings(iterations = 500), data, ones_everywhere)
        numbers = Int[]
        settle_at_ten(number, rest...) = (push!(numbers, number); number == 10 && (chain.control[1] = Bridge.SETTLE))
        @test Bridge.fit(chain, cut(chain), settle_at_ten) == :done
        @test numbers == 1:16
    end

    @testset "a rejected split begins anew" begin
        # One Gaussian: no split of it is any good, so the start is asked again and again.
        one = Float32.(randn(MersenneTwister(3), 2, 1000))
        asked = Ref(0)
        for (after, expected) in ((0, 1), (3, 3))
            chain = Bridge.Chain(settings(fresh_start_after = after, iterations = 40), one, ones(Int, 1000))
            start = cut(chain)
            asked[] = 0
            Bridge.fit(chain, (arguments...) -> (asked[] += 1; start(arguments...)), silent)
            @test after == 0 ? asked[] == expected : asked[] >= expected
        end
    end

    @testset "counts" begin
        counts, groups_of = counted_groups()
        ones_there = ones(Int, length(groups_of))
        of_counts = Bridge.dirichlet(0.1 .* (1:12))
        counting(; arguments...) = settings(; prior = of_counts, arguments...)
        @test of_counts.α == Float32.(0.1 .* (1:12))

        chain = Bridge.Chain(counting(), counts, ones_there, groups_of)
        @test Bridge.fit(chain, cut(chain), silent) == :done
        @test maximum(Bridge.labels(chain)) == 4
        @test agreement(Bridge.labels(chain), groups_of) > 0.99

        halves = 2 .* groups_of .- (eachindex(groups_of) .% 2)
        chain = Bridge.Chain(counting(), counts, halves)
        Bridge.fit(chain, nothing, silent)
        other = Bridge.Chain(counting(), counts, halves)
        DPMMSubClusters.init_first_clusters!(other.model, 8)
        DPMMSubClusters.run_model(other.model, 1)
        @test Bridge.labels(chain) == Bridge.labels(other)
        @test Bridge.sublabels(chain) == Bridge.sublabels(other)

        # The statistics without the package's detour are its own to the last bit.
        some = view(counts, :, groups_of .== 2)
        ours = DPMMSubClusters.create_sufficient_statistics(of_counts, of_counts, some)
        any_array = Tuple{typeof(of_counts),typeof(of_counts),AbstractArray{Float32,2}}
        theirs = invoke(DPMMSubClusters.create_sufficient_statistics, any_array, of_counts, of_counts, some)
        @test (ours.N, ours.points_sum) == (theirs.N, theirs.points_sum)

        loggamma = DPMMSubClusters.SpecialFunctions.loggamma
        before = 0.1 .* (1:12)
        after = before .+ vec(sum(Float64.(counts); dims = 2))
        expected = loggamma(sum(before)) - loggamma(sum(after)) + sum(loggamma.(after) .- loggamma.(before))
        @test Ratios.log_marginal_likelihood(of_counts, counts) ≈ expected rtol = 1e-5

        # Drawn from so little, nearly all proportions of features without counts are zero.
        tiny = Bridge.dirichlet(fill(1e-4, 12))
        drawn = DPMMSubClusters.sample_distribution(tiny)
        @test !all(isfinite, drawn.α)
        Bridge.keep_finite!(drawn)
        @test all(isfinite, drawn.α)
        sparse_counts = copy(counts)
        sparse_counts[counts .< 8] .= 0
        chain = Bridge.Chain(counting(prior = tiny), sparse_counts, ones_there)
        Bridge.fit(chain, cut(chain), silent)
        @test agreement(Bridge.labels(chain), groups_of) > 0.99

        # Two points that are like the data as a whole, and like no group of them.
        whole = vec(sum(counts; dims = 2))
        strange = hcat(counts, repeat(round.(2000 .* whole ./ sum(whole)), 1, 2))
        with_outliers = counting(outlier_weight = 0.01, outlier_prior = Bridge.dirichlet(whole))
        chain = Bridge.Chain(with_outliers, strange, ones(Int, size(strange, 2)))
        Bridge.fit(chain, cut(chain), silent)
        @test Bridge.labels(chain)[end-1:end] == [1, 1]
        @test count(==(1), Bridge.labels(chain)) < 20
    end

    @testset "two workers" begin
        added = Bridge.start_workers(2)
        @test nworkers() == 2
        # Turned, so that no two groups have the same first axis: cut there, two such would take long to part, and the
        # workers' random numbers have no seed.
        data, truth = groups(turn = 0.3)
        chain = Bridge.Chain(settings(), data, ones_everywhere, truth)
        seen = Int[]
        start = cut(chain)
        watching(rows, counts, sides) = (append!(seen, counts); start(rows, counts, sides))
        Bridge.fit(chain, watching, silent)
        @test maximum(seen) <= Bridge.START_SAMPLE
        @test agreement(Bridge.labels(chain), truth) > 0.99
        Bridge.release(chain)
        counts, groups_of = counted_groups()
        chain = Bridge.Chain(settings(prior = Bridge.dirichlet(fill(0.1, 12))), counts, ones(Int, length(groups_of)))
        Bridge.fit(chain, cut(chain), silent)
        @test agreement(Bridge.labels(chain), groups_of) > 0.99
        Bridge.release(chain)
        chain = Bridge.Chain(settings(iterations = 500), data, ones_everywhere)
        victim = remotecall_fetch(getpid, added[1])
        kill_at_five(number, rest...) = number == 5 && run(`kill -9 $victim`)
        @test_throws "worker process $(added[1]) of Julia ended" Bridge.fit(chain, cut(chain), kill_at_five)
        @test !Bridge.running()
        # The death may first show as a write that fails.
        broken = CompositeException([CapturedException(Base.IOError("write: broken pipe", Base.UV_EPIPE), [])])
        @test Bridge.lost_worker(broken, added) == added[1]
        @test Bridge.lost_worker(broken, [myid()]) === nothing
        Bridge.stop_workers(added)
        @test nprocs() == 1
    end
end
