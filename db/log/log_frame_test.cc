#include "db/log/log_frame.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "util/random.h"
#include "util/write_batch_reader.h"

namespace dlsm {
namespace {

constexpr LogId kLog{0x1234567890abcdef};
constexpr LogPosition kPosition = 777;

using Entry = std::tuple<ValueType, std::string, std::string>;

std::string FrameOf(const std::vector<Entry>& entries, SequenceNumber first,
                    LogPosition position = kPosition, LogId log = kLog) {
  WriteBatch batch;
  for (const auto& [type, key, value] : entries) {
    if (type == ValueType::kValue) {
      batch.Put(key, value);
    } else {
      batch.Delete(key);
    }
  }
  const Slice contents = WriteBatchReader::Entries(batch);
  std::string frame(LogFrameBytesOf(contents), '\0');
  contents.ToString().copy(frame.data() + kLogFrameHeaderBytes, contents.size());
  SealLogFrame(log, position, static_cast<uint32_t>(frame.size()), first,
               static_cast<uint32_t>(entries.size()), frame.data());
  return frame;
}

std::vector<Entry> EntriesOf(const LogFrame& frame, Status* status) {
  std::vector<Entry> entries;
  LogEntryReader reader(frame);
  SequenceNumber sequence;
  ValueType type;
  Slice key;
  Slice value;
  while (reader.Next(&sequence, &type, &key, &value)) {
    EXPECT_EQ(sequence, frame.first + entries.size());
    entries.emplace_back(type, key.ToString(), value.ToString());
  }
  *status = reader.status();
  return entries;
}

const std::vector<Entry> kSome = {{ValueType::kValue, "key", "value"},
                                  {ValueType::kDeletion, "gone", ""},
                                  {ValueType::kValue, "", std::string(300, 'v')},
                                  {ValueType::kValue, "empty", ""}};

TEST(LogFrameTest, BringsBackWhatWentIn) {
  const size_t bytes = FrameOf(kSome, 42).size();
  const std::string with_more = FrameOf(kSome, 42) + "what follows";
  LogFrame frame;
  ASSERT_TRUE(TakeLogFrame(kLog, kPosition, with_more, &frame));
  EXPECT_EQ(frame.position, kPosition);
  EXPECT_EQ(frame.bytes, bytes);
  EXPECT_EQ(frame.first, 42u);
  EXPECT_EQ(frame.last(), 45u);
  Status status;
  EXPECT_EQ(EntriesOf(frame, &status), kSome);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

// Fails if a frame of one entry is another one than that of a batch with this entry.
TEST(LogFrameTest, OneEntryIsABatchOfOne) {
  for (const Entry& entry : kSome) {
    const auto& [type, key, value] = entry;
    std::string frame(LogFrameBytesOfOne(type, key, value), '\0');
    EncodeLogEntry(type, key, value, frame.data() + kLogFrameHeaderBytes);
    SealLogFrame(kLog, kPosition, static_cast<uint32_t>(frame.size()), 5, 1, frame.data());
    EXPECT_EQ(frame, FrameOf({entry}, 5));
  }
}

// Fails if bytes that another log, or this one at another position, has left are taken for a frame.
TEST(LogFrameTest, BelongsToOnePlaceOfOneLog) {
  LogFrame frame;
  uint64_t bytes;
  const std::string other_log = FrameOf(kSome, 42, kPosition, LogId{9});
  EXPECT_FALSE(TakeLogFrame(kLog, kPosition, other_log, &frame));
  EXPECT_FALSE(PeekLogFrame(kLog, kPosition, other_log, &bytes));
  const std::string other_place = FrameOf(kSome, 42, kPosition + 1);
  EXPECT_FALSE(TakeLogFrame(kLog, kPosition, other_place, &frame));
  EXPECT_FALSE(PeekLogFrame(kLog, kPosition, other_place, &bytes));
}

// Fails if a frame that is cut off or has a flipped bit anywhere is taken for whole.
TEST(LogFrameTest, NoDamageIsMissed) {
  const std::string whole = FrameOf(kSome, 42);
  LogFrame frame;
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(TakeLogFrame(kLog, kPosition, Slice(whole.data(), bytes), &frame)) << bytes;
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(TakeLogFrame(kLog, kPosition, damaged, &frame)) << bit;
  }
}

// Fails if a frame whose checksum is right and whose entries are not makes a reader read beyond it,
// or says nothing.
TEST(LogFrameTest, EntriesAreNotBelieved) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    const std::string entries = random.Bytes(random.Uniform(40));
    std::string bytes = std::string(kLogFrameHeaderBytes, '\0') + entries;
    const auto count = static_cast<uint32_t>(1 + random.Uniform(5));
    SealLogFrame(kLog, kPosition, static_cast<uint32_t>(bytes.size()), 1, count, bytes.data());
    LogFrame frame;
    ASSERT_TRUE(TakeLogFrame(kLog, kPosition, bytes, &frame));
    Status status;
    const size_t found = EntriesOf(frame, &status).size();
    EXPECT_EQ(status.ok(), found == count);
  }
}

}  // namespace
}  // namespace dlsm
