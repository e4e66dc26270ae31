"""From draws to answers: the partition that represents them, how sure it is, and how far to trust the draws."""
