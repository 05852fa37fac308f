// A program of LevelDB's, with something of each header. It is compiled against LevelDB or against
// dLSM, without any change, and prints the same. Usage: sample DIRECTORY
#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/table.h>
#include <leveldb/table_builder.h>
#include <leveldb/write_batch.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

void Check(const leveldb::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// The order from behind: a class of the program's, with functions that the library calls.
class Backwards : public leveldb::Comparator {
 public:
  int Compare(const leveldb::Slice& a, const leveldb::Slice& b) const override {
    return b.compare(a);
  }
  const char* Name() const override { return "sample.Backwards"; }
  void FindShortestSeparator(std::string*, const leveldb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

class Counter : public leveldb::WriteBatch::Handler {
 public:
  void Put(const leveldb::Slice&, const leveldb::Slice&) override { ++puts; }
  void Delete(const leveldb::Slice&) override { ++deletions; }
  int puts = 0;
  int deletions = 0;
};

// An Env of the program's.
class CountingEnv : public leveldb::EnvWrapper {
 public:
  CountingEnv() : EnvWrapper(leveldb::Env::Default()) {}
  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override {
    ++files;
    return target()->NewWritableFile(name, file);
  }
  int files = 0;
};

void PrintAll(leveldb::Iterator* iterator) {
  const std::unique_ptr<leveldb::Iterator> owned(iterator);
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    std::printf("%s = %s\n", iterator->key().ToString().c_str(),
                iterator->value().ToString().c_str());
  }
  Check(iterator->status());
}

void UseDatabase(const std::string& directory) {
  const Backwards backwards;
  const std::unique_ptr<const leveldb::FilterPolicy> filter(leveldb::NewBloomFilterPolicy(10));
  const std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(1 << 20));
  leveldb::Options options;
  options.create_if_missing = true;
  options.comparator = &backwards;
  options.filter_policy = filter.get();
  options.block_cache = cache.get();
  Check(leveldb::DestroyDB(directory, options));
  leveldb::DB* opened = nullptr;
  Check(leveldb::DB::Open(options, directory, &opened));
  std::unique_ptr<leveldb::DB> db(opened);
  leveldb::WriteBatch batch;
  batch.Put("apple", "red");
  batch.Put("banana", "green");
  batch.Delete("cherry");
  Counter counter;
  Check(batch.Iterate(&counter));
  std::printf("%d puts, %d deletions\n", counter.puts, counter.deletions);
  leveldb::WriteOptions synced;
  synced.sync = true;
  Check(db->Write(synced, &batch));
  const leveldb::Snapshot* const snapshot = db->GetSnapshot();
  Check(db->Put(leveldb::WriteOptions(), "banana", "yellow"));
  leveldb::ReadOptions before;
  before.snapshot = snapshot;
  std::string value;
  Check(db->Get(before, "banana", &value));
  std::printf("banana was %s\n", value.c_str());
  db->ReleaseSnapshot(snapshot);
  db->CompactRange(nullptr, nullptr);
  std::printf("cherry: %s\n", db->Get(leveldb::ReadOptions(), "cherry", &value).ToString().c_str());
  db.reset();
  Check(leveldb::DB::Open(options, directory, &opened));
  db.reset(opened);
  PrintAll(db->NewIterator(leveldb::ReadOptions()));
  std::printf("%d\n", db->GetProperty("leveldb.stats", &value) ? 1 : 0);
}

void UseTable(const std::string& name) {
  CountingEnv env;
  leveldb::Options options;
  options.env = &env;
  leveldb::WritableFile* writable = nullptr;
  Check(env.NewWritableFile(name, &writable));
  leveldb::TableBuilder builder(options, writable);
  builder.Add("one", "1");
  builder.Add("two", "2");
  Check(builder.Finish());
  Check(writable->Close());
  delete writable;
  leveldb::RandomAccessFile* file = nullptr;
  Check(env.NewRandomAccessFile(name, &file));
  leveldb::Table* table = nullptr;
  Check(leveldb::Table::Open(options, file, builder.FileSize(), &table));
  PrintAll(table->NewIterator(leveldb::ReadOptions()));
  delete table;
  delete file;
  Check(env.DeleteFile(name));
  std::printf("%d file\n", env.files);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string directory = argv[1];
  UseDatabase(directory);
  UseTable(directory + "-table");
  std::printf("%zu %zu %zu %zu %zu %zu\n", sizeof(leveldb::Options), sizeof(leveldb::ReadOptions),
              sizeof(leveldb::Status), sizeof(leveldb::WriteBatch), sizeof(leveldb::Iterator),
              sizeof(leveldb::Cache));
  return 0;
}
