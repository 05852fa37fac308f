#include "dLSM/write_batch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "util/random.h"
#include "util/rounds_testing.h"
#include "util/status_testing.h"
#include "util/write_batch_reader.h"

namespace dlsm {
namespace {

class Printer final : public WriteBatch::Handler {
 public:
  void Put(const Slice& key, const Slice& value) override {
    text += "Put(" + key.ToString() + "," + value.ToString() + ")";
  }
  void Delete(const Slice& key) override { text += "Delete(" + key.ToString() + ")"; }
  bool DeleteRange(const Slice& begin, const Slice& end) override {
    text += "DeleteRange(" + begin.ToString() + "," + end.ToString() + ")";
    return true;
  }
  std::string text;
};

std::string Print(const WriteBatch& batch) {
  Printer printer;
  const Status status = batch.Iterate(&printer);
  return printer.text + (status.ok() ? "" : status.ToString());
}

TEST(WriteBatchTest, IteratesInOrder) {
  WriteBatch batch;
  EXPECT_EQ(batch.Count(), 0u);
  EXPECT_EQ(Print(batch), "");
  batch.Put("a", "1");
  batch.Delete("b");
  batch.Put("", "");
  batch.Put("a", std::string(3, '\0'));
  EXPECT_EQ(batch.Count(), 4u);
  EXPECT_EQ(Print(batch), "Put(a,1)Delete(b)Put(,)Put(a," + std::string(3, '\0') + ")");
  batch.Clear();
  EXPECT_EQ(batch.Count(), 0u);
  EXPECT_EQ(Print(batch), "");
}

TEST(WriteBatchTest, DeletesRanges) {
  WriteBatch batch;
  batch.DeleteRange("a", "c");
  batch.Put("b", "1");
  EXPECT_EQ(batch.Count(), 2u);
  EXPECT_EQ(Print(batch), "DeleteRange(a,c)Put(b,1)");
  // A handler of an application that was written before there were ranges.
  struct OldHandler final : public WriteBatch::Handler {
    void Put(const Slice&, const Slice&) override {}
    void Delete(const Slice&) override {}
  };
  OldHandler old;
  EXPECT_TRUE(batch.Iterate(&old).IsInvalidArgument());
}

TEST(WriteBatchTest, GoesBackToSavePoints) {
  WriteBatch batch;
  EXPECT_TRUE(batch.RollbackToSavePoint().IsNotFound());
  EXPECT_TRUE(batch.PopSavePoint().IsNotFound());
  batch.Put("a", "1");
  batch.SetSavePoint();
  batch.Put("b", "2");
  batch.SetSavePoint();
  batch.Delete("c");
  batch.SetSavePoint();
  batch.DeleteRange("d", "e");
  EXPECT_OK(batch.PopSavePoint());
  EXPECT_EQ(Print(batch), "Put(a,1)Put(b,2)Delete(c)DeleteRange(d,e)");
  EXPECT_OK(batch.RollbackToSavePoint());
  EXPECT_EQ(Print(batch), "Put(a,1)Put(b,2)");
  EXPECT_EQ(batch.Count(), 2u);
  WriteBatch copy = batch;
  WriteBatch moved = std::move(copy);
  EXPECT_TRUE(copy.RollbackToSavePoint().IsNotFound());  // NOLINT: it is empty, and of use.
  EXPECT_OK(moved.RollbackToSavePoint());
  EXPECT_EQ(Print(moved), "Put(a,1)");
  batch.Clear();
  EXPECT_TRUE(batch.RollbackToSavePoint().IsNotFound());
}

TEST(WriteBatchTest, Appends) {
  WriteBatch first;
  WriteBatch second;
  first.Append(second);
  EXPECT_EQ(first.Count(), 0u);
  second.Put("a", "1");
  first.Append(second);
  first.Delete("b");
  first.Append(first);  // Itself.
  EXPECT_EQ(first.Count(), 4u);
  EXPECT_EQ(Print(first), "Put(a,1)Delete(b)Put(a,1)Delete(b)");
  EXPECT_EQ(Print(second), "Put(a,1)");
}

TEST(WriteBatchTest, CopiesAreIndependent) {
  WriteBatch batch;
  batch.Put("a", "1");
  WriteBatch copy = batch;
  batch.Delete("a");
  EXPECT_EQ(Print(copy), "Put(a,1)");
}

// Fails if a batch that was moved has no number of updates any more: to append it would throw, and
// what is put into it next would be damaged.
TEST(WriteBatchTest, WhatIsMovedIsEmptyAndOfUse) {
  for (const size_t bytes : {size_t{1}, size_t{1000}}) {  // Short strings take their bytes along.
    const std::string value(bytes, 'v');
    const std::string printed = "Put(a," + value + ")";
    std::vector<WriteBatch> batches(2);
    batches[0].Put("a", value);
    batches[1].Put("b", "2");
    batches[1] = std::move(batches[0]);
    EXPECT_EQ(Print(batches[1]), printed);
    const WriteBatch constructed(std::move(batches[1]));
    for (WriteBatch& moved : batches) {
      EXPECT_EQ(moved.Count(), 0u);
      EXPECT_EQ(moved.ApproximateSize(), WriteBatch().ApproximateSize());
      EXPECT_EQ(Print(moved), "");
      WriteBatch both = constructed;
      both.Append(moved);
      EXPECT_EQ(Print(both), printed);
      moved.Put("c", "3");
      EXPECT_EQ(Print(moved), "Put(c,3)");
    }
  }
}

TEST(WriteBatchTest, ApproximateSizeGrows) {
  WriteBatch batch;
  const size_t empty = batch.ApproximateSize();
  batch.Put("key", "value");
  const size_t one = batch.ApproximateSize();
  EXPECT_GE(one, empty + 8);
  batch.Delete("key");
  EXPECT_GT(batch.ApproximateSize(), one);
}

// Fails if a length of more than 32 bits is cut: the batch would hold another value. The bytes are
// mapped, but never touched.
TEST(WriteBatchTest, WhatIsTooLargeIsAnErrorLater) {
  const size_t bytes = size_t{std::numeric_limits<uint32_t>::max()} + 1;
  void* mapped =
      mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) GTEST_SKIP() << "no address space";
  const Slice large(static_cast<const char*>(mapped), bytes);
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("b", large);
  batch.Delete("c");
  Printer printer;
  EXPECT_TRUE(batch.Iterate(&printer).IsInvalidArgument());
  EXPECT_EQ(printer.text, "Put(a,1)");
  WriteBatch deletion;
  deletion.Delete(large);
  EXPECT_TRUE(deletion.Iterate(&printer).IsInvalidArgument());
  munmap(mapped, bytes);
}

// While there is one, the process can have little more memory than it has.
class LittleMemory {
 public:
  static constexpr rlim_t kBytes = rlim_t{64} << 20;

  LittleMemory() {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    rlimit little = before_;
    little.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kBytes;
    EXPECT_EQ(setrlimit(RLIMIT_AS, &little), 0);
  }
  ~LittleMemory() { EXPECT_EQ(setrlimit(RLIMIT_AS, &before_), 0); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;

 private:
  rlimit before_{};
};

// Fails if an update for which there is no memory is counted, or is there in part: what is added
// after it would be read as the rest of it.
TEST(WriteBatchTest, WithoutMemoryNothingIsAdded) {
  if (kUnderSanitizer) GTEST_SKIP() << "a sanitizer ends the process where it has no memory";
  constexpr size_t kBytes = size_t{1} << 30;
  void* mapped =
      mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) GTEST_SKIP() << "no address space";
  const Slice large(static_cast<const char*>(mapped), kBytes);
  WriteBatch batch;
  batch.Put("a", "1");
  const size_t bytes = batch.ApproximateSize();
  {
    const LittleMemory little;
    EXPECT_THROW(batch.Put("b", large), std::bad_alloc);
    EXPECT_THROW(batch.Put(large, "2"), std::bad_alloc);
    EXPECT_THROW(batch.Delete(large), std::bad_alloc);
  }
  munmap(mapped, kBytes);
  EXPECT_EQ(batch.Count(), 1u);
  EXPECT_EQ(batch.ApproximateSize(), bytes);
  batch.Put("c", "3");
  EXPECT_EQ(Print(batch), "Put(a,1)Put(c,3)");
}

// As if so many updates had been made, for which the machine has no room.
void SetCount(WriteBatch* batch, uint32_t count) {
  EncodeFixed32(const_cast<char*>(WriteBatchReader::Contents(*batch).data()), count);
}

// Fails if the number of updates wraps around: a batch that says of itself that it is empty, or
// holds fewer than it does, would be refused as damaged or be applied under too few numbers.
TEST(WriteBatchTest, MoreUpdatesThanCanBeCountedAreAnErrorLater) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  using Add = void (*)(WriteBatch*);
  const Add put = [](WriteBatch* batch) { batch->Put("a", "1"); };
  const Add remove = [](WriteBatch* batch) { batch->Delete("a"); };
  const Add append = [](WriteBatch* batch) { batch->Append(*batch); };
  for (const Add add : {put, remove, append}) {
    WriteBatch batch;
    batch.Delete("a");
    SetCount(&batch, kMost - 1);
    batch.Delete("b");
    EXPECT_EQ(batch.Count(), kMost);
    Printer printer;
    EXPECT_TRUE(batch.Iterate(&printer).IsCorruption()) << "it holds less than the test says";
    for (int i = 0; i < 2; ++i) {
      add(&batch);
      EXPECT_EQ(batch.Count(), kMost);
      printer.text.clear();
      EXPECT_TRUE(batch.Iterate(&printer).IsInvalidArgument());
      EXPECT_EQ(printer.text, "Delete(a)Delete(b)");
    }
    WriteBatch other;
    other.Append(batch);
    EXPECT_TRUE(other.Iterate(&printer).IsInvalidArgument()) << "an appended one passes it on";
    batch.Clear();
    put(&batch);
    EXPECT_EQ(Print(batch), "Put(a,1)");
  }
}

TEST(WriteBatchReaderTest, ReadsWithoutHandler) {
  WriteBatch batch;
  batch.Put("key", "value");
  batch.Delete("gone");
  WriteBatchReader reader(batch);
  EXPECT_EQ(reader.count(), 2u);
  EXPECT_EQ(reader.payload_bytes(), 1 + 4 + 6 + 1 + 5u);
  UpdateType type;
  Slice key;
  Slice value;
  ASSERT_TRUE(reader.Next(&type, &key, &value));
  EXPECT_EQ(type, UpdateType::kPut);
  EXPECT_EQ(key, Slice("key"));
  EXPECT_EQ(value, Slice("value"));
  ASSERT_TRUE(reader.Next(&type, &key, &value));
  EXPECT_EQ(type, UpdateType::kDelete);
  EXPECT_EQ(key, Slice("gone"));
  EXPECT_TRUE(value.empty());
  EXPECT_FALSE(reader.Next(&type, &key, &value));
  EXPECT_OK(reader.status());
}

Status ReadAll(const Slice& contents) {
  WriteBatchReader reader(contents);
  UpdateType type;
  Slice key;
  Slice value;
  while (reader.Next(&type, &key, &value)) {
    EXPECT_GE(key.data(), contents.data());
    EXPECT_LE(key.data() + key.size(), contents.data() + contents.size());
  }
  EXPECT_FALSE(reader.Next(&type, &key, &value)) << "the end must stay the end";
  return reader.status();
}

std::string Sample() {
  WriteBatch batch;
  batch.Put("first", std::string(200, 'v'));
  batch.Delete("second");
  batch.Put("", "");
  return WriteBatchReader::Contents(batch).ToString();
}

// Fails if a batch that lost its end is applied in part without an error.
TEST(WriteBatchReaderTest, TruncationIsNoticedAtEveryLength) {
  const std::string whole = Sample();
  ASSERT_OK(ReadAll(whole));
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_TRUE(ReadAll(Slice(cut.data(), cut.size())).IsCorruption()) << length;
  }
}

TEST(WriteBatchReaderTest, FlippedBitsAreSafe) {
  std::string bytes = Sample();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const bool read = ReadAll(Slice(exact.data(), exact.size())).ok();
    if (bit < 32) {
      EXPECT_FALSE(read) << "the count must be checked";
    }
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  }
}

TEST(WriteBatchReaderTest, TrailingBytesAreNoticed) {
  EXPECT_TRUE(ReadAll(Sample() + '\x02').IsCorruption());
  EXPECT_TRUE(ReadAll(Sample() + '\x00').IsCorruption());
}

}  // namespace
}  // namespace dlsm
