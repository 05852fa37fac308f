// A memory node that changes, over shm, the bytes that a compute node is just reading. Whatever is
// looked at twice is not the same: nothing may crash, hang or be read or written out of bounds for
// that, which AddressSanitizer sees, and who asks for checksums gets right bytes or an error.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/get_pipeline.h"
#include "dLSM/iterator.h"
#include "dLSM/pinnable_slice.h"
#include "db/test/test_database_testing.h"
#include "util/random.h"
#include "util/rpc/messages/database_header.h"

namespace dlsm {
namespace {

struct Shape {
  const char* name;
  TableFormat format;
  CompressionType compression;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

constexpr uint64_t kKeys = 400;

// Compresses well, so that a wrong length of it goes far.
std::string ValueOf(uint64_t number) {
  return std::to_string(number) + std::string(300 + number % 5 * 100, 'v');
}

// Changes bytes of the memory node's tables, each for a moment, so that most of what is read is
// right, and is followed to the end.
class Scribbler {
 public:
  Scribbler(char* memory, uint64_t bytes)
      : memory_(memory), bytes_(bytes), thread_([this] { Run(); }) {}
  ~Scribbler() {
    stop_ = true;
    thread_.join();
  }

 private:
  void Run() {
    Random random(7);
    while (!stop_.load(std::memory_order_relaxed)) {
      std::atomic_ref<char> byte(memory_[random.Uniform(bytes_)]);
      const char before = byte.load(std::memory_order_relaxed);
      const char wrong = random.OneIn(2) ? '\xff' : static_cast<char>(random.Uniform(256));
      for (uint64_t i = random.Uniform(5000); i > 0; --i) {
        byte.store(wrong, std::memory_order_relaxed);
        byte.store(before, std::memory_order_relaxed);
      }
    }
  }

  char* const memory_;
  const uint64_t bytes_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class ChangingMemoryTest : public testing::TestWithParam<Shape> {
 protected:
  static TestNode::Config NodeConfig() {
    TestNode::Config config;
    config.bytes = uint64_t{64} << 20;
    return config;
  }

  ChangingMemoryTest() : options_(node_.With(TinyOptions(), "shm")) {
    options_.table_format = GetParam().format;
    options_.compression = GetParam().compression;
    options_.block_cache = nullptr;
    options_.compaction_place = CompactionPlace::kComputeNode;
    options_.operation_timeout_ms = 10000;
  }

  void Fill() {
    db_ = OpenOrDie(options_, "db");
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), ValueOf(i)));
    }
    ASSERT_OK(db_->Flush(FlushOptions()));
    ASSERT_OK(db_->WaitForBackgroundWork());
  }

  // Tables only: the header's words are how memory node and clients agree who is the owner.
  std::unique_ptr<Scribbler> NewScribbler() {
    char* const memory = node_.server().node().region().data();
    return std::make_unique<Scribbler>(memory + kDatabaseHeaderBytes,
                                       node_.used_bytes() - kDatabaseHeaderBytes);
  }

  static bool Passed(std::chrono::steady_clock::time_point start) {
    const char* const asked = std::getenv("DLSM_SCRIBBLE_MS");
    const int ms = asked != nullptr ? std::atoi(asked) : 500;
    return std::chrono::steady_clock::now() - start > std::chrono::milliseconds(ms);
  }

  // What was read of a key.
  void Check(const ReadOptions& reads, uint64_t number, const Status& status, const Slice& value) {
    status.PermitUncheckedError();
    if (!reads.verify_checksums) return Touch(value);
    EXPECT_FALSE(status.IsNotFound()) << number;
    if (status.ok()) {
      EXPECT_TRUE(value == Slice(ValueOf(number))) << number;
      ++right_;
    }
    wrong_ += status.ok() ? 0 : 1;
  }

  void Gets(const ReadOptions& reads) {
    for (int i = 0; i < 20; ++i) {
      const uint64_t number = random_.Uniform(kKeys);
      std::string value;
      const Status got = db_->Get(reads, NumberedKey(number), &value);
      Check(reads, number, got, value);
      PinnableSlice pinned;
      const Status got_pinned = db_->Get(reads, NumberedKey(number), &pinned);
      Check(reads, number, got_pinned, pinned);
    }
  }

  void MultiGet(const ReadOptions& reads) {
    std::vector<uint64_t> numbers;
    std::vector<std::string> keys;
    for (int i = 0; i < 40; ++i) {
      numbers.push_back(random_.Uniform(kKeys));
      keys.push_back(NumberedKey(numbers.back()));
    }
    std::vector<std::string> values;
    const auto statuses = db_->MultiGet(reads, {keys.begin(), keys.end()}, &values);
    for (size_t i = 0; i < keys.size(); ++i) Check(reads, numbers[i], statuses[i], values[i]);
  }

  void Pipeline(const ReadOptions& reads) {
    const auto pipeline = db_->NewGetPipeline(reads, 8);
    GetPipeline::Answer answer;
    for (int submitted = 0; submitted < 40 || pipeline->outstanding() > 0;) {
      if (submitted < 40 && pipeline->outstanding() < pipeline->depth()) {
        const uint64_t number = random_.Uniform(kKeys);
        EXPECT_OK(pipeline->Submit(NumberedKey(number), number));
        ++submitted;
      } else if (pipeline->Next(&answer)) {
        Check(reads, answer.tag, answer.status, answer.value);
      }
    }
  }

  void Scan(const ReadOptions& reads) {
    const std::unique_ptr<Iterator> iterator(db_->NewIterator(reads));
    const bool forward = random_.OneIn(2);
    uint64_t next = random_.Uniform(kKeys);
    forward ? iterator->Seek(NumberedKey(next)) : iterator->SeekForPrev(NumberedKey(next));
    for (int i = 0; i < 200 && iterator->Valid(); ++i) {
      if (reads.verify_checksums) {
        EXPECT_EQ(iterator->key().ToString(), NumberedKey(next));
      }
      Touch(iterator->key());
      Check(reads, next, Status::OK(), iterator->value());
      forward ? ++next : --next;
      forward ? iterator->Next() : iterator->Prev();
    }
    iterator->status().PermitUncheckedError();
  }

  // Reads every byte.
  void Touch(const Slice& bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) sum_ += static_cast<unsigned char>(bytes[i]);
  }

  TestNode node_{NodeConfig()};
  Options options_;
  std::unique_ptr<DB> db_;
  Random random_{11};
  uint64_t sum_ = 0;
  uint64_t right_ = 0;
  uint64_t wrong_ = 0;
};

// Fails if a length is read once to be checked and once to be used, or if what was verified in
// place is then read once more.
TEST_P(ChangingMemoryTest, Reads) {
  Fill();
  for (const bool verify : {false, true}) {
    ReadOptions reads;
    reads.verify_checksums = verify;
    reads.fill_cache = false;
    const auto scribbler = NewScribbler();
    const auto start = std::chrono::steady_clock::now();
    while (!Passed(start) && !HasFailure()) {
      Gets(reads);
      MultiGet(reads);
      Pipeline(reads);
      Scan(reads);
    }
  }
  EXPECT_GT(right_, 0u);
  RecordProperty("ErrorsOf", std::to_string(wrong_) + " of " + std::to_string(wrong_ + right_));
}

// Merges on the compute node read in place, verified or not: what they rely on, the order of keys,
// is that of copies. Whatever they make, it can be read without harm.
TEST_P(ChangingMemoryTest, Merges) {
  Fill();
  const auto scribbler = NewScribbler();
  const auto start = std::chrono::steady_clock::now();
  do {
    for (uint64_t i = 0; i < kKeys; i += 3) {
      if (!db_->Put(WriteOptions(), NumberedKey(i), ValueOf(i)).ok()) break;
    }
    db_->Flush(FlushOptions()).PermitUncheckedError();
    db_->CompactRange(nullptr, nullptr).PermitUncheckedError();
    Gets(ReadOptions());
    Scan(ReadOptions());
  } while (!Passed(start));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ChangingMemoryTest,
    testing::Values(Shape{"Bytes", TableFormat::kByteAddressable, kNoCompression},
                    Shape{"Blocks", TableFormat::kBlockBased, kNoCompression},
                    Shape{"Snappy", TableFormat::kBlockBased, kSnappyCompression}),
    [](const auto& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace dlsm
