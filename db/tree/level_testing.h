// Levels with guards, for tests: no policy of this release makes guards, but a manifest can.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "db/test/fake_table_testing.h"
#include "db/tree/manifest.h"
#include "util/checksum.h"
#include "util/status_testing.h"

namespace dlsm {

inline constexpr Guard::Order kNewestFirst = Guard::Order::kNewestFirst;
inline constexpr Guard::Order kByKey = Guard::Order::kByKey;

struct GuardSketch {
  std::string key;
  Guard::Order order = Guard::Order::kNewestFirst;
  std::vector<FakeTable> tables;
};

inline TableOpener FakeTableOpener() {
  return [](const TableMeta& meta, TableRef* table) {
    *table = std::make_shared<const Table>(std::make_unique<FakeTableReader>(meta), nullptr);
    return Status::OK();
  };
}

// The bytes of a manifest with one level; the first sketch is its sentinel.
inline std::string ManifestOfOneLevel(const std::vector<GuardSketch>& guards) {
  std::string body;
  PutFixed32(&body, 1);
  PutLengthPrefixed(&body, Slice("comparator"));
  PutLengthPrefixed(&body, Slice("filter"));
  PutVarint64(&body, 1000);
  PutVarint64(&body, 1000);
  PutVarint32(&body, 1);
  KeyWriter keys(/*sharing=*/false);
  for (size_t i = 0; i < guards.size(); ++i) {
    if (i == 1) PutVarint32(&body, static_cast<uint32_t>(guards.size() - 1));
    keys.Put(guards[i].key, &body);
    body.push_back(static_cast<char>(guards[i].order));
    PutVarint32(&body, static_cast<uint32_t>(guards[i].tables.size()));
    for (const FakeTable& table : guards[i].tables) FakeMeta(table).EncodeTo(&body, &keys);
  }
  if (guards.size() == 1) PutVarint32(&body, 0);
  std::string bytes;
  PutFixed32(&bytes, Crc32c(body.data(), body.size()));
  return bytes + body;
}

inline Level MakeLevel(const std::vector<GuardSketch>& guards) {
  Manifest manifest;
  std::vector<Level> levels;
  EXPECT_OK(
      ManifestCodec::Decode(ManifestOfOneLevel(guards), FakeTableOpener(), &manifest, &levels));
  return levels.empty() ? Level() : levels.front();
}

}  // namespace dlsm
