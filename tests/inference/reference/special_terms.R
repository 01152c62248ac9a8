# Makes special_terms.csv: models of square and ordinal tables fitted as Poisson GLMs by R's glm.
# Scores are 1, 2, ... but for income in job_satisfaction (7.5, 20, 32.5, 60, in thousands of
# dollars). `coefficient` names, in our notation, the parameter whose estimate and standard error are
# given. Run from the root of the repository: Rscript tests/inference/reference/special_terms.R
load <- function(name) {
  data <- read.csv(file.path("data", paste0(name, ".csv")), colClasses = "character")
  factors <- setdiff(names(data), "count")
  for (f in factors) data[[f]] <- factor(data[[f]], levels = unique(data[[f]]))
  data$count <- as.numeric(data$count)
  data
}
square <- function(data, a, b) {
  i <- as.integer(data[[a]]); j <- as.integer(factor(data[[b]], levels = levels(data[[a]])))
  data$diag <- factor(ifelse(i == j, i, 0))
  data$symm <- factor(paste(pmin(i, j), pmax(i, j)))
  data$si <- i; data$sj <- j
  data
}
ordinal <- function(data, a, b, u = NULL) {
  i <- as.integer(data[[a]])
  data$si <- if (is.null(u)) i else u[i]
  data$sj <- as.integer(data[[b]])
  data
}
rows <- list()
fit <- function(table, data, formula, ours, coefficient = "", theirs = NULL) {
  m <- glm(as.formula(formula), poisson, data, control = glm.control(1e-11, 100))
  s <- summary(m)$coefficients
  value <- if (is.null(theirs)) c(NA, NA) else s[theirs, 1:2]
  rows[[length(rows) + 1]] <<- data.frame(
    data = table, formula = ours, G2 = sprintf("%.10g", deviance(m)),
    X2 = sprintf("%.10g", sum(residuals(m, "pearson")^2)), df = df.residual(m),
    coefficient = coefficient, estimate = sprintf("%.10g", value[1]),
    se = sprintf("%.10g", value[2]))
}
h <- square(load("hauser_mobility"), "Son", "Father")
fit("hauser_mobility", h, "count ~ Son + Father + diag", "Son + Father + Diag(Son, Father)",
    "Diag(Son, Father)[Farm]", "diag5")
fit("hauser_mobility", h, "count ~ symm", "Symm(Son, Father)")
fit("hauser_mobility", h, "count ~ Son + Father + symm", "Son + Father + Symm(Son, Father)")
fit("hauser_mobility", h, "count ~ Son + Father + si:sj",
    "Son + Father + score(Son):score(Father)", "score(Son):score(Father)", "si:sj")
fit("hauser_mobility", h, "count ~ Son + Father + si:sj + diag",
    "Son + Father + score(Son):score(Father) + Diag(Son, Father)", "score(Son):score(Father)",
    "si:sj")
fit("hauser_mobility", h, "count ~ Son + Father + sj + Son:sj", "Son + Father + Son:score(Father)")
v <- square(load("visual_acuity"), "right", "left")
fit("visual_acuity", v, "count ~ gender * (right + left + diag)",
    "gender*(right + left + Diag(right, left))")
fit("visual_acuity", v, "count ~ gender * (right + left) + diag",
    "gender*(right + left) + Diag(right, left)")
fit("visual_acuity", v, "count ~ gender * symm", "gender*Symm(right, left)")
fit("visual_acuity", v, "count ~ gender + symm", "gender + Symm(right, left)", "gender[T.male]",
    "gendermale")
fit("visual_acuity", v, "count ~ gender * (right + left + symm)",
    "gender*(right + left + Symm(right, left))")
fit("visual_acuity", v, "count ~ gender * (right + left) + symm",
    "gender*(right + left) + Symm(right, left)")
fit("visual_acuity", v, "count ~ gender * (right + left) + si:sj",
    "gender*(right + left) + score(right):score(left)", "score(right):score(left)", "si:sj")
fit("visual_acuity", v, "count ~ gender * (right + left) + si:sj + gender:si:sj",
    "gender*(right + left) + gender:score(right):score(left)",
    "gender[T.male]:score(right):score(left)", "gendermale:si:sj")
m <- ordinal(load("mental_impairment"), "ses", "mental")
fit("mental_impairment", m, "count ~ ses + mental", "ses + mental")
fit("mental_impairment", m, "count ~ ses + mental + si:sj",
    "ses + mental + score(ses):score(mental)", "score(ses):score(mental)", "si:sj")
fit("mental_impairment", m, "count ~ mental + ses + sj + ses:sj", "ses + mental + ses:score(mental)")
fit("mental_impairment", m, "count ~ ses + mental + si + mental:si",
    "ses + mental + mental:score(ses)")
j <- ordinal(load("job_satisfaction"), "income", "satisfaction", c(7.5, 20, 32.5, 60))
fit("job_satisfaction", j, "count ~ income + satisfaction + si:sj",
    "income + satisfaction + score(income):score(satisfaction)",
    "score(income):score(satisfaction)", "si:sj")
fit("job_satisfaction", j, "count ~ si + sj + si:sj",
    "score(income) + score(satisfaction) + score(income):score(satisfaction)",
    "score(income):score(satisfaction)", "si:sj")
write.csv(do.call(rbind, rows), "tests/inference/reference/special_terms.csv", row.names = FALSE)
cat(R.version.string, "\n")
