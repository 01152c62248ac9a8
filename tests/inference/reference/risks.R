# Makes risks.csv: profile-likelihood intervals (95 %) of the risk difference, the relative risk and
# phi in 2 x 2 tables of counts, by a search for where the profiled deviance crosses the chi-square
# quantile. Those of the risks are checked against confint() of a binomial glm with identity or log
# link, which interpolate, where glm can be fitted. Run from the root of the repository:
# Rscript tests/inference/reference/risks.R
suppressMessages(library(MASS))

loglik <- function(k, p) sum(ifelse(k > 0, k * log(pmax(p, 1e-300)), 0))

risk <- function(x, of) {  # of(p1, p2) = t, turned into p1 as a function of t and p2
  k <- c(x[1, 1], x[1, 2], x[2, 1], x[2, 2])
  top <- loglik(k, c(x[1, ] / sum(x[1, ]), x[2, ] / sum(x[2, ])))
  profile <- function(t, low, high) {
    f <- function(q) { p <- of(t, q); loglik(k, c(p, 1 - p, q, 1 - q)) }
    2 * (top - optimize(f, c(low, high), maximum = TRUE, tol = 1e-12)$objective)
  }
  profile
}

ends <- function(deviance, estimate, low, high) {
  gap <- function(t) deviance(t) - qchisq(0.95, 1)
  c(uniroot(gap, c(low, estimate), tol = 1e-10)$root, uniroot(gap, c(estimate, high), tol = 1e-10)$root)
}

difference <- function(x) {
  profile <- risk(x, function(t, q) q + t)
  p <- x[, 1] / rowSums(x)
  ends(function(t) profile(t, max(0, -t), min(1, 1 - t)), p[1] - p[2], -0.99999, 0.99999)
}

ratio <- function(x) {
  profile <- risk(x, function(t, q) q * exp(t))
  p <- x[, 1] / rowSums(x)
  exp(ends(function(t) profile(t, 0, min(1, exp(-t))), log(p[1] / p[2]), -8, 8))
}

phi <- function(x) {
  k <- c(x[1, 1], x[1, 2], x[2, 1], x[2, 2])
  top <- loglik(k, k / sum(k))
  deviance <- function(t) {
    f <- function(z) {
      a <- plogis(z[1]); b <- plogis(z[2])
      d <- t * sqrt(a * (1 - a) * b * (1 - b))
      p <- c(a * b + d, a * (1 - b) - d, (1 - a) * b - d, (1 - a) * (1 - b) + d)
      if (any(p < 0)) return(1e10)
      2 * (top - loglik(k, p))
    }
    start <- qlogis(c(sum(x[1, ]), sum(x[, 1])) / sum(x))
    best <- Inf
    for (at in list(start, c(0, 0), rep(mean(start), 2))) {
      o <- optim(at, f, control = list(reltol = 1e-15, maxit = 5000))
      o <- optim(o$par, f, control = list(reltol = 1e-15, maxit = 5000))
      best <- min(best, o$value)
    }
    best
  }
  m <- prod(rowSums(x)) * prod(colSums(x))
  ends(deviance, (k[1] * k[4] - k[2] * k[3]) / sqrt(m), -0.95, 0.95)
}

tables <- list(even = c(18, 32, 33, 17), small = c(3, 1, 2, 7), tiny_row = c(4, 2, 120, 274))
out <- do.call(rbind, lapply(names(tables), function(name) {
  x <- matrix(tables[[name]], 2, byrow = TRUE)
  found <- rbind(difference(x), ratio(x), phi(x))
  p <- x[, 1] / rowSums(x); row <- c(1, 0)
  for (link in c("identity", "log")) {
    g <- make.link(link)$linkfun
    fit <- try(glm(x ~ row, binomial(link), start = c(g(p[2]), g(p[1]) - g(p[2]))), silent = TRUE)
    ci <- if (!inherits(fit, "try-error")) try(suppressMessages(confint(fit))["row", ], silent = TRUE)
    if (is.numeric(ci) && !anyNA(ci)) {
      here <- if (link == "log") log(found[2, ]) else found[1, ]
      cat(name, link, "confint differs by", max(abs(ci - here)), "\n")
      stopifnot(abs(ci - here) < 0.02)
    }
  }
  data.frame(data = name, a = x[1, 1], b = x[1, 2], c = x[2, 1], d = x[2, 2],
             measure = c("risk_difference", "relative_risk", "phi"),
             lower = sprintf("%.9g", found[, 1]), upper = sprintf("%.9g", found[, 2]))
}))
write.csv(out, "tests/inference/reference/risks.csv", row.names = FALSE, quote = FALSE)
cat(R.version.string, "\n")
