# Makes loglm_converged.csv: the models of data/reference_loglm.csv fitted with R's MASS::loglm at
# a tolerance of 1e-10 (the default of loglin, 0.1, stops short of six digits). Run from the
# root of the repository: Rscript tests/inference/reference/loglm.R
library(MASS)
models <- read.csv("data/reference_loglm.csv", stringsAsFactors = FALSE)
rows <- lapply(seq_len(nrow(models)), function(i) {
  data <- read.csv(file.path("data", paste0(models$data[i], ".csv")), colClasses = "character")
  factors <- setdiff(names(data), "count")
  for (f in factors) data[[f]] <- factor(data[[f]], levels = unique(data[[f]]))
  data$count <- as.numeric(data$count)
  table <- xtabs(as.formula(paste("count ~", paste(factors, collapse = "+"))), data)
  fit <- loglm(as.formula(models$model[i]), table, eps = 1e-10, iter = 20000)
  data.frame(data = models$data[i], model = models$model[i], n = sum(table),
             G2 = sprintf("%.10g", fit$lrt), X2 = sprintf("%.10g", fit$pearson), df = fit$df)
})
out <- do.call(rbind, rows)
attr(out, "R") <- R.version.string
write.csv(out, "tests/inference/reference/loglm_converged.csv", row.names = FALSE)
cat(R.version.string, "\n")
