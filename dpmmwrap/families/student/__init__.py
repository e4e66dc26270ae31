"""Student-t clusters with full covariances: Gaussian ones whose points have scales of their own."""
