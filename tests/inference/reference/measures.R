# Makes measures.csv: measures of association with the asymptotic standard errors of multinomial
# sampling. V and the contingency coefficient from vcd::assocstats, gamma and its error also from
# vcdExtra::GKgamma; the others by the closed formulas of Agresti, Goodman and Kruskal, and Theil
# as SAS documents them. The common odds ratio is that of glm. Run from the root of the repository:
# Rscript tests/inference/reference/measures.R
suppressPackageStartupMessages(library(vcdExtra))

read <- function(name) {
  data <- read.csv(file.path("data", paste0(name, ".csv")), colClasses = "character")
  factors <- setdiff(names(data), "count")
  for (f in factors) data[[f]] <- factor(data[[f]], levels = unique(data[[f]]))
  data$count <- as.numeric(data$count)
  xtabs(as.formula(paste("count ~", paste(factors, collapse = "+"))), data)
}

pairs_of <- function(x) {
  up <- down <- x * 0
  for (i in seq_len(nrow(x))) for (j in seq_len(ncol(x))) {
    r <- seq_len(nrow(x)); s <- seq_len(ncol(x))
    up[i, j] <- sum(x[r > i, s > j]) + sum(x[r < i, s < j])
    down[i, j] <- sum(x[r > i, s < j]) + sum(x[r < i, s > j])
  }
  list(up = up, down = down, P = sum(x * up), Q = sum(x * down))
}

ordinal <- function(x) {
  p <- pairs_of(x); n <- sum(x); P <- p$P; Q <- p$Q; d <- p$up - p$down
  rows <- rowSums(x); columns <- colSums(x)
  gamma <- (P - Q) / (P + Q)
  gamma_se <- 4 / (P + Q)^2 * sqrt(sum(x * (Q * p$up - P * p$down)^2))
  stopifnot(abs(gamma_se - GKgamma(x)$sigma) < 1e-10, abs(gamma - GKgamma(x)$gamma) < 1e-10)
  wr <- n^2 - sum(rows^2); wc <- n^2 - sum(columns^2); w <- sqrt(wr * wc)
  tau <- (P - Q) / w
  v <- outer(rows, rep(1, ncol(x))) * wc + outer(rep(1, nrow(x)), columns) * wr
  tau_se <- sqrt(sum(x * (2 * w * d + tau * v)^2) - n^3 * tau^2 * (wr + wc)^2) / w^2
  somers <- (P - Q) / wr
  somers_se <- 2 / wr^2 * sqrt(sum(x * (wr * d - (P - Q) * (n - rows))^2))
  data.frame(measure = c("gamma", "tau_b", "somers_column"),
             estimate = c(gamma, tau, somers), se = c(gamma_se, tau_se, somers_se))
}

entropy <- function(p) -sum(p[p > 0] * log(p[p > 0]))

theil <- function(x) {
  n <- sum(x); p <- x / n; r <- rowSums(p); s <- colSums(p)
  hr <- entropy(r); hs <- entropy(s); hb <- entropy(p)
  keep <- x > 0
  lp <- log(p[keep]); lr <- log(outer(r, rep(1, ncol(x)))[keep])
  ls <- log(outer(rep(1, nrow(x)), s)[keep]); k <- x[keep]
  column <- (hr + hs - hb) / hs
  column_se <- sqrt(sum(k * (hs * (lp - lr) + (hr - hb) * ls)^2)) / (n * hs^2)
  both <- 2 * (hr + hs - hb) / (hr + hs)
  both_se <- 2 * sqrt(sum(k * (hb * (lr + ls) - (hr + hs) * lp)^2)) / (n * (hr + hs)^2)
  data.frame(measure = c("uncertainty_column", "uncertainty_symmetric"),
             estimate = c(column, both), se = c(column_se, both_se))
}

by_chi <- function(x) {
  a <- assocstats(x)
  data.frame(measure = c("cramers_v", "contingency"), estimate = c(a$cramer, a$contingency), se = NA)
}

dose <- as.table(matrix(c(30, 22, 12, 10, 18, 28), 3))
sparse <- as.table(matrix(c(10, 4, 0, 3, 8, 2, 1, 0, 9), 3))
two_way <- list(dose = dose, sparse = sparse, mental_impairment = read("mental_impairment"))
out <- do.call(rbind, lapply(names(two_way), function(name) {
  x <- unclass(two_way[[name]])
  cbind(data = name, rbind(by_chi(x), ordinal(x), theil(x)))
}))

ucb <- as.data.frame(read("ucb_admissions"))
names(ucb)[4] <- "n"
fit <- glm(Admit == "Admitted" ~ Gender + Dept, binomial, ucb, weights = n,
           control = glm.control(epsilon = 1e-14, maxit = 100))
male <- -coef(summary(fit))["GenderFemale", ]
out <- rbind(out, data.frame(data = "ucb_admissions", measure = "log_common_odds_ratio",
                             estimate = male[1], se = -male[2]))
out$estimate <- sprintf("%.12g", out$estimate)
out$se <- ifelse(is.na(out$se), "", sprintf("%.12g", out$se))
write.csv(out, "tests/inference/reference/measures.csv", row.names = FALSE)
cat(R.version.string, "vcd", as.character(packageVersion("vcd")), "vcdExtra",
    as.character(packageVersion("vcdExtra")), "\n")
