// Tables as devices show them: the entries' order says nothing about which is right.
#include "util/fabric/verbs/verbs_gid.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

GidEntry Entry(uint32_t index, GidType type, const std::string& address, uint32_t netdev = 3) {
  return GidEntry{index, type, netdev, *GidOfAddress(address)};
}

std::vector<GidEntry> MellanoxTable() {
  return {Entry(0, GidType::kRoceV1, "fe80::1"),     Entry(1, GidType::kRoceV2, "fe80::1"),
          Entry(2, GidType::kRoceV1, "10.0.0.7"),    Entry(3, GidType::kRoceV2, "10.0.0.7"),
          Entry(4, GidType::kRoceV1, "10.1.0.7", 9), Entry(5, GidType::kRoceV2, "10.1.0.7", 9),
          Entry(6, GidType::kRoceV2, "2001:db8::7")};
}

// Returns -1 where none will do.
int Chosen(const std::vector<GidEntry>& table, const GidWish& wish) {
  const GidEntry* entry = ChooseGid(table, wish);
  return entry != nullptr ? static_cast<int>(entry->index) : -1;
}

// Fails if RoCE v1 or a link-local address is taken where a routable v2 one is there.
TEST(VerbsGidTest, PrefersRoutableRoceV2) {
  EXPECT_EQ(Chosen(MellanoxTable(), {}), 3);
  EXPECT_EQ(
      Chosen({Entry(0, GidType::kRoceV1, "fe80::1"), Entry(1, GidType::kRoceV2, "fe80::1")}, {}),
      1);
  EXPECT_EQ(
      Chosen({Entry(0, GidType::kRoceV2, "fe80::1"), Entry(1, GidType::kRoceV2, "fd00::1")}, {}),
      1);
  EXPECT_EQ(
      Chosen({Entry(0, GidType::kRoceV1, "fe80::1"), Entry(1, GidType::kRoceV1, "10.0.0.7")}, {}),
      1);
  EXPECT_EQ(Chosen({Entry(0, GidType::kInfiniBand, "fe80::1", 0)}, {}), 0);
  EXPECT_EQ(Chosen({}, {}), -1);
}

// Fails if an address is taken for a mere hint of its family, or the family is not looked at.
TEST(VerbsGidTest, PrefersTheWishedAddressThenItsFamily) {
  GidWish wish;
  wish.address = GidOfAddress("10.1.0.7");
  EXPECT_EQ(Chosen(MellanoxTable(), wish), 5);
  wish.address = GidOfAddress("2001:db8::7");
  EXPECT_EQ(Chosen(MellanoxTable(), wish), 6);
  wish.address = GidOfAddress("2001:db8::99");
  EXPECT_EQ(Chosen(MellanoxTable(), wish), 6);
  wish.address = GidOfAddress("127.0.0.1");
  EXPECT_EQ(Chosen(MellanoxTable(), wish), 3);
}

// Fails if what was asked for by hand is overruled.
TEST(VerbsGidTest, KeepsToIndexAndInterface) {
  GidWish wish;
  wish.index = 0;
  EXPECT_EQ(Chosen(MellanoxTable(), wish), 0);
  wish.index = 77;
  EXPECT_EQ(Chosen(MellanoxTable(), wish), -1);
  wish = {};
  wish.netdev = 9;
  EXPECT_EQ(Chosen(MellanoxTable(), wish), 5);
  wish.netdev = 10;
  EXPECT_EQ(Chosen(MellanoxTable(), wish), -1);
}

// Fails if the two ends of a queue pair could speak different versions or address families.
TEST(VerbsGidTest, SpeaksThePeersLanguage) {
  GidWish wish;
  wish.peer = Entry(0, GidType::kRoceV1, "10.0.0.8");
  EXPECT_EQ(Chosen(MellanoxTable(), wish), 2);
  wish.peer = Entry(0, GidType::kRoceV2, "fe80::8");
  wish.address = GidOfAddress("10.0.0.7");
  EXPECT_EQ(Chosen(MellanoxTable(), wish), 6);
  wish.peer = Entry(0, GidType::kInfiniBand, "fe80::8");
  EXPECT_EQ(Chosen(MellanoxTable(), wish), -1);
}

TEST(VerbsGidTest, AddressesGoThereAndBack) {
  for (const char* address : {"10.0.0.7", "fe80::1", "2001:db8::7", "::"}) {
    ASSERT_TRUE(GidOfAddress(address).has_value()) << address;
    EXPECT_EQ(GidToString(*GidOfAddress(address)), address);
  }
  EXPECT_EQ(GidToString(*GidOfAddress("::ffff:10.0.0.7")), "10.0.0.7");
  EXPECT_FALSE(GidOfAddress("mlx5_0").has_value());
  EXPECT_FALSE(GidOfAddress("").has_value());
}

}  // namespace
}  // namespace dlsm
