# Makes step.csv: the steps that R's step() takes by BIC from mutual independence among the
# hierarchical models of data/caesar.csv, with MASS::loglm. `bic` is R's, -2 log-likelihood (up to a
# constant) + log(n) parameters. Run from the root of the repository:
# Rscript tests/inference/reference/step.R
library(MASS)
data <- read.csv("data/caesar.csv", colClasses = "character")
factors <- setdiff(names(data), "count")
for (f in factors) data[[f]] <- factor(data[[f]], levels = unique(data[[f]]))
data$count <- as.numeric(data$count)
counts <- xtabs(as.formula(paste("count ~", paste(factors, collapse = "+"))), data)
start <- loglm(~Infection + Risk + Antibiotics + Planned, counts, eps = 1e-10, iter = 20000)
upper <- ~Infection * Risk * Antibiotics * Planned
path <- step(start, scope = list(lower = formula(start), upper = upper), direction = "both",
             k = log(sum(counts)), trace = 0)$anova
out <- data.frame(step = path$Step, df = path[["Resid. Df"]],
                  G2 = sprintf("%.10g", path[["Resid. Dev"]]), bic = sprintf("%.10g", path$AIC))
write.csv(out, "tests/inference/reference/step.csv", row.names = FALSE)
cat(R.version.string, "\n")
