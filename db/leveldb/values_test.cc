// Status, Slice, WriteBatch and iterators without entries.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "dLSM/status.h"
#include "db/leveldb/translate.h"
#include "leveldb/iterator.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"
#include "leveldb/write_batch.h"

namespace dlsm::compat {
namespace {

static_assert(sizeof(leveldb::Status) == sizeof(void*));
static_assert(sizeof(leveldb::Slice) == 2 * sizeof(void*));
static_assert(sizeof(leveldb::WriteBatch) == sizeof(std::string));
static_assert(sizeof(leveldb::Iterator) == 5 * sizeof(void*));

TEST(LevelDbStatusTest, CopiesMovesAndTells) {
  leveldb::Status status = leveldb::Status::NotFound("custom NotFound status message");
  const leveldb::Status copy = status;
  const leveldb::Status moved = std::move(status);
  EXPECT_EQ(copy.ToString(), "NotFound: custom NotFound status message");
  EXPECT_EQ(moved.ToString(), copy.ToString());
  leveldb::Status other = leveldb::Status::IOError("a", "b");
  const leveldb::Status& itself = other;
  other = itself;
  EXPECT_EQ(other.ToString(), "IO error: a: b");
  other = copy;
  EXPECT_TRUE(other.IsNotFound());
  EXPECT_EQ(leveldb::Status::OK().ToString(), "OK");
  EXPECT_EQ(leveldb::Status::Corruption("x").ToString(), "Corruption: x");
  EXPECT_EQ(leveldb::Status::NotSupported("x").ToString(), "Not implemented: x");
  EXPECT_EQ(leveldb::Status::InvalidArgument("x").ToString(), "Invalid argument: x");
}

TEST(LevelDbStatusTest, HasACodeForEachOfOurs) {
  EXPECT_TRUE(ToLeveldb(dlsm::Status::OK()).ok());
  EXPECT_TRUE(ToLeveldb(dlsm::Status::NotFound("x")).IsNotFound());
  EXPECT_TRUE(ToLeveldb(dlsm::Status::Corruption("x")).IsCorruption());
  EXPECT_TRUE(ToLeveldb(dlsm::Status::NotSupported("x")).IsNotSupportedError());
  EXPECT_TRUE(ToLeveldb(dlsm::Status::InvalidArgument("x")).IsInvalidArgument());
  for (const dlsm::Status& status :
       {dlsm::Status::IOError("x"), dlsm::Status::Busy("x"), dlsm::Status::TimedOut("x"),
        dlsm::Status::Aborted("x"), dlsm::Status::IOFenced("x")}) {
    EXPECT_EQ(ToLeveldb(status).ToString(), "IO error: x");
  }
}

TEST(LevelDbSliceTest, Compares) {
  const leveldb::Slice abc("abc");
  EXPECT_LT(abc.compare("abd"), 0);
  EXPECT_LT(leveldb::Slice("ab").compare(abc), 0);
  EXPECT_GT(abc.compare(""), 0);
  EXPECT_EQ(abc, leveldb::Slice("abcd", 3));
  EXPECT_NE(abc, leveldb::Slice("abx"));
  EXPECT_TRUE(abc.starts_with("ab"));
  EXPECT_FALSE(abc.starts_with("abcd"));
}

TEST(LevelDbStatusTest, NamesRemediesThatProgramsHave) {
  EXPECT_EQ(
      ToLeveldb(dlsm::Status::Busy("full; set Options::embedded_memory_bytes higher")).ToString(),
      "IO error: full; set DLSM_DIRECTORY_BYTES in the environment to more");
}

class Lister final : public leveldb::WriteBatch::Handler {
 public:
  void Put(const leveldb::Slice& key, const leveldb::Slice& value) override {
    list += key.ToString() + "=" + value.ToString() + " ";
  }
  void Delete(const leveldb::Slice& key) override { list += "-" + key.ToString() + " "; }
  std::string list;
};

std::string List(const leveldb::WriteBatch& batch) {
  Lister lister;
  const leveldb::Status status = batch.Iterate(&lister);
  return status.ok() ? lister.list : lister.list + status.ToString();
}

// The bytes as LevelDB lays them out, for programs that send batches elsewhere.
std::string& BytesOf(leveldb::WriteBatch* batch) { return *reinterpret_cast<std::string*>(batch); }

TEST(LevelDbWriteBatchTest, ListsAndAppends) {
  leveldb::WriteBatch batch;
  EXPECT_EQ(batch.ApproximateSize(), 12u);
  EXPECT_EQ(List(batch), "");
  batch.Put("a", "va");
  batch.Delete("b");
  EXPECT_EQ(batch.ApproximateSize(), 12u + 6 + 3);
  leveldb::WriteBatch copy = batch;
  copy.Append(batch);
  EXPECT_EQ(List(copy), "a=va -b a=va -b ");
  copy.Append(copy);
  EXPECT_EQ(List(copy), "a=va -b a=va -b a=va -b a=va -b ");
  copy.Clear();
  EXPECT_EQ(List(copy), "");
  EXPECT_EQ(List(batch), "a=va -b ");
  EXPECT_EQ(BytesOf(&batch), std::string("\0\0\0\0\0\0\0\0\2\0\0\0\1\1a\2va\0\1b", 21));
}

TEST(LevelDbWriteBatchTest, DamageIsFound) {
  leveldb::WriteBatch batch;
  batch.Put("a", "va");
  batch.Delete("b");
  const std::string whole = BytesOf(&batch);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    BytesOf(&batch) = whole.substr(0, bytes);
    EXPECT_NE(List(batch).find("Corruption"), std::string::npos) << bytes;
  }
  BytesOf(&batch) = whole;
  BytesOf(&batch)[12] = 7;
  EXPECT_EQ(List(batch), "Corruption: unknown update in a batch");
}

TEST(LevelDbIteratorTest, WithoutEntries) {
  const std::unique_ptr<leveldb::Iterator> empty(leveldb::NewEmptyIterator());
  empty->SeekToFirst();
  EXPECT_FALSE(empty->Valid());
  EXPECT_TRUE(empty->status().ok());
  const std::unique_ptr<leveldb::Iterator> error(
      leveldb::NewErrorIterator(leveldb::Status::Corruption("x")));
  error->Seek("a");
  EXPECT_FALSE(error->Valid());
  EXPECT_EQ(error->status().ToString(), "Corruption: x");
}

}  // namespace
}  // namespace dlsm::compat
