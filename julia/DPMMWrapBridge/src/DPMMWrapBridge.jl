"""
Drives DPMMSubClusters.jl one iteration at a time, with starts of subclusters and progress handled by callables.

The callables may be Julia functions or Python objects: this package does not know PythonCall, so that worker
processes can load it without a Python of their own. It evaluates no text.
"""
module DPMMWrapBridge

using Distributed
using LinearAlgebra
using Random

import DPMMSubClusters
using DPMMSubClusters: local_cluster, local_group, dp_parallel_sampling, model_hyper_params
using DPMMSubClusters: niw_hyperparams, multinomial_hyper, multinomial_dist, distribution_sample
# Through the package, so that a project of the user's own need not name them too.
using DPMMSubClusters.DistributedArrays
using DPMMSubClusters.Distributions: Beta, Gamma
using DPMMSubClusters.Distributions.StatsFuns: log1pexp
using DPMMSubClusters.SpecialFunctions: loggamma

include("processes.jl")
include("chain.jl")
include("counts.jl")
include("starts.jl")
include("hastings.jl")
include("concentration.jl")
include("sampling.jl")
include("workload.jl")

end
