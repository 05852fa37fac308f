#include "util/metrics/metric_families.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

#include "util/latency_counts.h"

namespace dlsm {
namespace {

std::string TextOf(MetricFamilies* families) {
  return prometheus::TextSerializer().Serialize(families->Take());
}

// Fails if samples of one name, which others have come between, make two families.
TEST(MetricFamiliesTest, OneNameIsOneFamily) {
  MetricFamilies families;
  families.Counter("a_total", "A", 1, {{"kind", "x"}});
  families.Gauge("b_bytes", "B", 2);
  families.Counter("a_total", "A", 3, {{"kind", "y"}});
  EXPECT_EQ(TextOf(&families),
            "# HELP a_total A\n# TYPE a_total counter\na_total{kind=\"x\"} 1\n"
            "a_total{kind=\"y\"} 3\n# HELP b_bytes B\n# TYPE b_bytes gauge\nb_bytes 2\n");
  EXPECT_EQ(TextOf(&families), "");
}

// Fails if a bucket lacks calls at its bound, or those beyond the last bound are lost.
TEST(MetricFamiliesTest, LatenciesAreCumulative) {
  LatencyCounts counts;
  for (const uint64_t nanos : {uint64_t{256}, uint64_t{257}, uint64_t{1} << 40}) counts.Add(nanos);
  LatencySums sums;
  counts.AddTo(&sums);
  MetricFamilies families;
  families.Latencies("a_seconds", "A", sums.Data());
  const std::string text = TextOf(&families);
  EXPECT_NE(text.find("a_seconds_count 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("a_seconds_bucket{le=\"2.56e-07\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("a_seconds_bucket{le=\"5.12e-07\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("a_seconds_bucket{le=\"+Inf\"} 3\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace dlsm
