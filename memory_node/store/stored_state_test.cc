#include "memory_node/store/stored_state.h"

#include <gtest/gtest.h>

#include <string>

#include "util/status_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kRegionBytes = 1 << 20;

StoredDatabase SomeDatabase() {
  StoredDatabase database;
  database.incarnation = 77;
  database.name = "some database";
  database.header = 4096;
  database.manifest_version = 9;
  database.epoch = 3;
  database.unnamed_from = UINT64_MAX;
  database.whole_from = 12;
  database.reasons = {{0, 0, {{4096, 8192}}}, {2, 0, {{8192, 12288}, {16384, 20480}}}};
  database.retired = {{32768, 36864}};
  return database;
}

StoredSession SomeSession() {
  StoredSession session;
  session.id = 5;
  session.incarnation = 77;
  session.client = "a client";
  session.tokens = {"one", "two"};
  session.known = true;
  session.owner = true;
  session.word_before = 1;
  session.word = 2;
  session.last_free = 8;
  session.unnamed_before = UINT64_MAX;
  session.grants = {{1, 4096, 64}, {2, 8192, 128}};
  session.next_merge = 40;
  session.awaited_merges = {3, 7};
  session.merges = {{3, {}}, {7, {{64, 128}}}};
  return session;
}

StoredManifest SomeManifest() { return {9, std::string("a\0b", 3)}; }

StoredRows SomeRows() {
  StoredRows rows;
  rows[{StoredKind::kDatabase, 77}] = SomeDatabase().Encode();
  rows[{StoredKind::kManifest, 77}] = SomeManifest().Encode(77);
  rows[{StoredKind::kSession, 5}] = SomeSession().Encode();
  StoredQuotas quotas;
  quotas.bytes_by_owner = {{"a", 1}, {"b", 2}};
  rows[{StoredKind::kQuotas, 0}] = quotas.Encode();
  return rows;
}

// Fails if some field is not stored.
TEST(StoredStateTest, ComesBackAsItWas) {
  StoredState state;
  ASSERT_OK(StoredState::Decode(SomeRows(), kRegionBytes, &state));
  ASSERT_EQ(state.databases.size(), 1u);
  EXPECT_EQ(state.databases[0], SomeDatabase());
  EXPECT_EQ(state.manifests.at(77), SomeManifest());
  ASSERT_EQ(state.sessions.size(), 1u);
  EXPECT_EQ(state.sessions[0], SomeSession());
  EXPECT_EQ(state.quotas.bytes_by_owner.at("b"), 2u);

  const StoredContents contents{ContentsId{1}, BootId{2}, 3, kRegionBytes, "boot"};
  StoredContents again;
  ASSERT_OK(StoredContents::Decode(contents.Encode(), &again));
  EXPECT_EQ(again, contents);
}

// Fails if a bit that flips anywhere in a row is believed, or a row is taken for another's.
TEST(StoredStateTest, DamageIsNoticed) {
  const StoredRows rows = SomeRows();
  for (const auto& [key, row] : rows) {
    for (size_t bit = 0; bit < row.size() * 8; ++bit) {
      StoredRows damaged = rows;
      damaged[key][bit / 8] = static_cast<char>(row[bit / 8] ^ (1 << (bit % 8)));
      StoredState state;
      ASSERT_TRUE(StoredState::Decode(damaged, kRegionBytes, &state).IsCorruption()) << bit;
    }
    StoredRows cut = rows;
    cut[key].resize(row.size() / 2);
    StoredState state;
    EXPECT_TRUE(StoredState::Decode(cut, kRegionBytes, &state).IsCorruption());
  }
  StoredRows moved = rows;
  moved[{StoredKind::kSession, 6}] = rows.at({StoredKind::kSession, 5});
  StoredState state;
  EXPECT_TRUE(StoredState::Decode(moved, kRegionBytes, &state).IsCorruption());
}

// Fails if rows that contradict each other are served: two databases would write to one byte.
TEST(StoredStateTest, ContradictionsAreNoticed) {
  StoredRows rows = SomeRows();
  StoredDatabase other = SomeDatabase();
  other.incarnation = 78;
  other.manifest_version = 0;
  other.name = "another";
  other.reasons = {{0, 0, {{12288, 16384}}}};
  other.retired.clear();
  rows[{StoredKind::kDatabase, 78}] = other.Encode();
  StoredState state;
  ASSERT_OK(StoredState::Decode(rows, kRegionBytes, &state));

  const auto is_refused = [&](const StoredDatabase& database, uint64_t capacity) {
    StoredRows wrong = rows;
    wrong[{StoredKind::kDatabase, 78}] = database.Encode();
    StoredState decoded;
    return StoredState::Decode(wrong, capacity, &decoded).IsCorruption();
  };
  StoredDatabase overlapping = other;
  overlapping.reasons[0].ranges = {{12000, 16384}};
  EXPECT_TRUE(is_refused(overlapping, kRegionBytes));
  StoredDatabase within = other;
  within.reasons[0].ranges = {{32768, 32832}};
  EXPECT_TRUE(is_refused(within, kRegionBytes));
  StoredDatabase same_name = other;
  same_name.name = SomeDatabase().name;
  EXPECT_TRUE(is_refused(same_name, kRegionBytes));
  StoredDatabase without_manifest = other;
  without_manifest.manifest_version = 4;
  EXPECT_TRUE(is_refused(without_manifest, kRegionBytes));
  EXPECT_TRUE(is_refused(other, 8192));
  EXPECT_FALSE(is_refused(other, kRegionBytes));
}

}  // namespace
}  // namespace dlsm
