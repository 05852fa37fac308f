#include "db/log/replayed_entries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/comparator.h"
#include "db/log/log_frame.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

constexpr SequenceNumber kFlushedBelow = 50;

// As a frame has them: the value lies behind the key.
class LoggedBytes {
 public:
  void Add(ReplayedEntries* to, size_t part, SequenceNumber sequence, ValueType type,
           const std::string& key, const std::string& value) {
    std::string& bytes =
        bytes_.emplace_back(LogFrameBytesOfOne(type, key, value) - kLogFrameHeaderBytes, '\0');
    EncodeLogEntry(type, key, value, bytes.data());
    LogFrame frame;
    frame.first = sequence;
    frame.count = 1;
    frame.entries = bytes;
    ASSERT_OK(ForEachEntry(frame, [&](SequenceNumber number, ValueType of_type, const Slice& a_key,
                                      const Slice& a_value) {
      to->Add(part, number, of_type, a_key, a_value);
      return Status::OK();
    }));
  }

 private:
  std::deque<std::string> bytes_;
};

struct Replayed {
  std::string key;
  SequenceNumber sequence;
  ValueType type;
  std::string value;

  friend bool operator==(const Replayed&, const Replayed&) = default;
};

std::vector<Replayed> ReadPiece(ReplayedEntries::Piece* piece) {
  std::vector<Replayed> read;
  Slice key;
  Slice value;
  while (piece->Next(&key, &value)) {
    const uint64_t trailer = ExtractTrailer(key);
    read.push_back({ExtractUserKey(key).ToString(), trailer >> 8,
                    static_cast<ValueType>(trailer & 0xff), value.ToString()});
  }
  return read;
}

// Of all pieces, one after the other.
std::vector<Replayed> ReadAll(const ReplayedEntries& entries, uint64_t piece_bytes,
                              size_t* pieces) {
  const std::vector<Slice> splits = entries.SplitKeys(piece_bytes);
  std::vector<Replayed> all;
  for (size_t i = 0; i <= splits.size(); ++i) {
    ReplayedEntries::Piece piece(entries, i == 0 ? nullptr : &splits[i - 1],
                                 i == splits.size() ? nullptr : &splits[i]);
    const std::vector<Replayed> read = ReadPiece(&piece);
    piece.Rewind();
    EXPECT_EQ(ReadPiece(&piece), read) << "once more";
    all.insert(all.end(), read.begin(), read.end());
  }
  *pieces = splits.size() + 1;
  return all;
}

// Fails if an entry is lost, comes twice, or out of order, whatever the order is, what the keys
// have in common, and however many pieces there are; or if an entry comes that is in tables.
TEST(ReplayedEntriesTest, AreWhatWasAddedInOrder) {
  Random random(1);
  for (const Comparator* user : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    const InternalKeyComparator comparator(user);
    for (const std::string prefix : {"", "p", "a prefix of many bytes "}) {
      for (const uint64_t piece_bytes : {uint64_t{1}, uint64_t{2000}, uint64_t{1} << 30}) {
        constexpr size_t kParts = 5;
        LoggedBytes log;
        ReplayedEntries entries(comparator, kFlushedBelow);
        entries.Begin(kParts);
        std::vector<Replayed> added;
        for (SequenceNumber sequence = 1; sequence <= 600; ++sequence) {
          Replayed entry{
              prefix + std::string(random.Uniform(3), 'k') + std::to_string(random.Uniform(100)),
              sequence, random.OneIn(4) ? ValueType::kDeletion : ValueType::kValue, ""};
          if (entry.type == ValueType::kValue) entry.value.assign(random.Uniform(300), 'v');
          // The last part has nothing.
          log.Add(&entries, sequence * (kParts - 1) / 601, sequence, entry.type, entry.key,
                  entry.value);
          if (sequence >= kFlushedBelow) added.push_back(std::move(entry));
        }
        ASSERT_OK(entries.End(kParts));
        std::sort(added.begin(), added.end(), [&](const Replayed& a, const Replayed& b) {
          const int order = user->Compare(a.key, b.key);
          return order != 0 ? order < 0 : a.sequence > b.sequence;
        });
        size_t pieces = 0;
        EXPECT_EQ(ReadAll(entries, piece_bytes, &pieces), added) << prefix << piece_bytes;
        EXPECT_EQ(pieces, piece_bytes == uint64_t{1} << 30 ? 1 : ReplayedEntries::kPiecesMax);
      }
    }
  }
}

// Fails if what a thread has read counts although the log ends before it, or if something is left
// of an earlier reading.
TEST(ReplayedEntriesTest, OnlyPartsThatCountCount) {
  LoggedBytes log;
  ReplayedEntries entries(InternalKeyComparator(BytewiseComparator()), kFlushedBelow);
  entries.Begin(1);
  log.Add(&entries, 0, 100, ValueType::kValue, "of an earlier reading", "");
  entries.Begin(3);
  log.Add(&entries, 0, 101, ValueType::kValue, "b", "1");
  log.Add(&entries, 1, 102, ValueType::kValue, "a", "2");
  log.Add(&entries, 2, 103, ValueType::kValue, "behind the end", "3");
  ASSERT_OK(entries.End(2));
  size_t pieces = 0;
  EXPECT_EQ(ReadAll(entries, 1 << 20, &pieces),
            (std::vector<Replayed>{{"a", 102, ValueType::kValue, "2"},
                                   {"b", 101, ValueType::kValue, "1"}}));
  EXPECT_FALSE(entries.empty());
  entries.Begin(2);
  ASSERT_OK(entries.End(2));
  EXPECT_TRUE(entries.empty());
  EXPECT_TRUE(ReadAll(entries, 1, &pieces).empty());
}

}  // namespace
}  // namespace dlsm
