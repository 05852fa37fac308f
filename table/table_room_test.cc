#include "table/table_room.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "dLSM/filter_policy.h"
#include "table/table_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

// Its answers are those of the builder's bound at every record, in any order of questions: also
// where records are much shorter than their bounds say, and near the end.
TEST(TableRoomTest, AnswersAsTheBuilder) {
  const std::unique_ptr<const FilterPolicy> filter(NewBloomFilterPolicy(10));
  constexpr uint64_t kCapacity = 100000;
  for (const TableFormat format : {TableFormat::kByteAddressable, TableFormat::kBlockBased}) {
    TableOptions options;
    options.format = format;
    options.filter_policy = filter.get();
    std::string image(kCapacity, '\0');
    MemorySink sink(image.data(), image.size());
    const std::unique_ptr<TableBuilder> builder = NewTableBuilder(options, &sink);
    TableRoom room(builder.get(), kCapacity);
    Random random(7);
    uint64_t records = 0;
    for (;; ++records) {
      const uint64_t now = builder->ImageBytesBound();
      ASSERT_LE(now, kCapacity);
      for (const uint64_t bytes : {random.Uniform(2 * kCapacity), now, now + 1, uint64_t{0}}) {
        ASSERT_EQ(room.Has(bytes), now >= bytes) << "record " << records;
      }
      for (const uint64_t bytes :
           {random.Uniform(kCapacity), kCapacity - now, kCapacity - now + 1}) {
        ASSERT_EQ(room.Fits(bytes), now + bytes <= kCapacity) << "record " << records;
      }
      const std::string key = MakeInternalKey(fmt::format("{:020}", records), 1);
      const std::string value(random.Uniform(300), 'v');
      const uint64_t bytes = builder->RecordBytesBound(key.size(), value.size());
      if (!room.Fits(bytes)) break;
      room.Take(bytes);
      ASSERT_OK(builder->Add(key, value, /*same=*/false));
    }
    EXPECT_GT(records, 100u);
  }
}

// What it is for: most records pass without the builder being asked.
TEST(TableRoomTest, SeldomAsksTheBuilder) {
  class CountingBuilder final : public TableBuilder {
   public:
    Status Add(const Slice&, const Slice&, bool) override { return Status::OK(); }
    Status AddEncoded(const Slice&, const Slice&, const Slice&, bool) override {
      return Status::OK();
    }
    uint64_t ImageBytesBound() const override {
      ++asked;
      return bytes;
    }
    uint64_t RecordBytesBound(size_t, size_t) const override { return 110; }
    uint64_t entries() const override { return 0; }
    Status Finish(TableMeta*, std::string*) override { return Status::OK(); }

    uint64_t bytes = 0;
    mutable uint64_t asked = 0;
  };
  CountingBuilder builder;
  TableRoom room(&builder, 1000000);
  uint64_t records = 0;
  for (; room.Fits(110); ++records) {
    room.Take(110);
    builder.bytes += 100;
  }
  EXPECT_EQ(records, 9999u);  // Of what the records take, not of what they may take.
  EXPECT_LT(builder.asked, 20u);
}

}  // namespace
}  // namespace dlsm
