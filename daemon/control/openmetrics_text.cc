#include "daemon/control/openmetrics_text.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>

#include <prometheus/metric_family.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace mlxcomm::control {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// The shortest that is this number and no other.
std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '\\' || c == '"') out += '\\';
      out += c;
    }
  }
  return out;
}

void WriteSample(std::ostream& out, const std::string& name, const ClientMetric& metric,
                 const std::string& bound, const std::string& value) {
  std::string labels;
  const auto add = [&labels](const std::string& label, const std::string& text) {
    absl::StrAppend(&labels, labels.empty() ? "" : ",", label, "=\"", Escaped(text), "\"");
  };
  for (const ClientMetric::Label& label : metric.label) add(label.name, label.value);
  if (!bound.empty()) add("le", bound);
  out << name;
  if (!labels.empty()) out << '{' << labels << '}';
  out << ' ' << value << '\n';
}

// Bounds are written as numbers with a fraction or an exponent: "1.0", not "1".
std::string Bound(double bound) {
  const std::string text = Number(bound);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

void WriteHistogram(std::ostream& out, const std::string& name, const ClientMetric& metric) {
  const ClientMetric::Histogram& histogram = metric.histogram;
  bool has_last = false;
  for (const ClientMetric::Bucket& bucket : histogram.bucket) {
    has_last = std::isinf(bucket.upper_bound);
    WriteSample(out, name + "_bucket", metric, Bound(bucket.upper_bound),
                absl::StrCat(bucket.cumulative_count));
  }
  const std::string count = absl::StrCat(histogram.sample_count);
  if (!has_last) WriteSample(out, name + "_bucket", metric, "+Inf", count);
  WriteSample(out, name + "_count", metric, {}, count);
  WriteSample(out, name + "_sum", metric, {}, Number(histogram.sample_sum));
}

void WriteFamily(std::ostream& out, const MetricFamily& family) {
  const bool counts = family.type == MetricType::Counter;
  const bool is_histogram = family.type == MetricType::Histogram;
  const std::string name(counts ? absl::StripSuffix(family.name, "_total") : family.name);
  out << "# TYPE " << name << ' '
      << (counts         ? "counter"
          : is_histogram ? "histogram"
                         : "gauge")
      << "\n# HELP " << name << ' ' << Escaped(family.help) << '\n';
  for (const ClientMetric& metric : family.metric) {
    if (is_histogram) {
      WriteHistogram(out, name, metric);
    } else if (counts) {
      WriteSample(out, name + "_total", metric, {}, Number(metric.counter.value));
    } else {
      WriteSample(out, name, metric, {}, Number(metric.gauge.value));
    }
  }
}

}  // namespace

bool AcceptsOpenMetrics(const char* accept) {
  if (accept == nullptr) return false;
  const std::vector<std::string> all = absl::StrSplit(accept, ',');
  for (const std::string& one : all) {
    std::vector<std::string> parts = absl::StrSplit(one, ';');
    for (std::string& part : parts) {
      std::erase_if(part, [](char c) { return c == ' ' || c == '\t'; });
    }
    if (!absl::EqualsIgnoreCase(parts[0], "application/openmetrics-text")) continue;
    bool wanted = true;  // A quality of 0 says no, as does a version that is not written here.
    for (const std::string& part : parts) {
      if (absl::StartsWithIgnoreCase(part, "q="))
        wanted &= std::strtod(part.c_str() + 2, nullptr) > 0;
      if (absl::StartsWithIgnoreCase(part, "version=")) wanted &= absl::EndsWith(part, "=1.0.0");
    }
    if (wanted) return true;
  }
  return false;
}

// For gauges, counters and histograms, which is all that there is (metric_families.h).
void OpenMetricsText::Serialize(std::ostream& out,
                                const std::vector<MetricFamily>& families) const {
  for (const MetricFamily& family : families) WriteFamily(out, family);
  out << "# EOF\n";
}

}  // namespace mlxcomm::control
