# The concentration, learned as Escobar and West (1995) do. The package has it fixed.

"Draw the concentration given the number of clusters, where it is to be learned."
function draw_concentration!(chain::Chain)
    chain.settings.α_rate > 0 || return
    model, settings = chain.model, chain.settings
    α, points = Float64(model.model_hyperparams.α), model.model_hyperparams.total_dim
    clusters = count(cluster -> cluster.points_count > 0, model.group.local_clusters) - (settings.outlier_weight > 0)
    shape, rate = settings.α_shape + clusters, settings.α_rate - log(rand(Beta(α + 1, points)))
    odds = (shape - 1) / (points * rate)
    drawn = rand(Gamma(rand() * (1 + odds) < odds ? shape : shape - 1, 1 / rate))
    hyperparameters = model_hyper_params(settings.prior, Float32(drawn), points)
    model.model_hyperparams = model.group.model_hyperparams = hyperparameters
    return
end

"log density of the concentration; 0 where it is fixed."
function log_concentration_prior(chain::Chain)
    shape, rate = chain.settings.α_shape, chain.settings.α_rate
    rate > 0 || return 0.0
    α = Float64(chain.model.model_hyperparams.α)
    return shape * log(rate) - loggamma(shape) + (shape - 1) * log(α) - rate * α
end
