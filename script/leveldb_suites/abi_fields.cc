// Prints places, sizes and defaults of what programs share with libleveldb by value: abi_check
// compares the lines of one set of headers and its library with those of another.

#include <leveldb/c.h>
#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/slice.h>
#include <leveldb/status.h>
#include <leveldb/write_batch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

void Print(const char* name, size_t place, size_t size, unsigned long long value) {
  std::printf("%s at %zu, %zu bytes, default %llu\n", name, place, size, value);
}

// Of a pointer only whether it is null, for the address is another in each process.
unsigned long long Number(const void* value) { return value != nullptr; }
unsigned long long Number(unsigned long long value) { return value; }

// A pointer to a virtual member function holds its place in the virtual table.
template <typename Member>
void PrintSlot(const char* name, Member member) {
  ptrdiff_t place = 0;
  static_assert(sizeof member >= sizeof place, "as the Itanium interface has it");
  std::memcpy(&place, &member, sizeof place);
  std::printf("%s at slot %td\n", name, place);
}

void Constant(const char* name, long long value) { std::printf("%s %lld\n", name, value); }

}  // namespace

#define FIELD(Class, field) \
  Print(#Class "." #field, offsetof(Class, field), sizeof(Class::field), Number(Class().field))
#define CONSTANT(name) Constant(#name, name)
#define SLOT(Class, function) PrintSlot(#Class "::" #function, &leveldb::Class::function)

namespace {

// Where functions are in the virtual tables, in the order of LevelDB's headers.
void PrintSlots() {
  SLOT(Cache, Insert);
  SLOT(Cache, Lookup);
  SLOT(Cache, Release);
  SLOT(Cache, Value);
  SLOT(Cache, Erase);
  SLOT(Cache, NewId);
  SLOT(Cache, Prune);
  SLOT(Cache, TotalCharge);
  SLOT(Comparator, Compare);
  SLOT(Comparator, Name);
  SLOT(Comparator, FindShortestSeparator);
  SLOT(Comparator, FindShortSuccessor);
  SLOT(DB, Put);
  SLOT(DB, Delete);
  SLOT(DB, Write);
  SLOT(DB, Get);
  SLOT(DB, NewIterator);
  SLOT(DB, GetSnapshot);
  SLOT(DB, ReleaseSnapshot);
  SLOT(DB, GetProperty);
  SLOT(DB, GetApproximateSizes);
  SLOT(DB, CompactRange);
  SLOT(Env, NewSequentialFile);
  SLOT(Env, NewRandomAccessFile);
  SLOT(Env, NewWritableFile);
  SLOT(Env, NewAppendableFile);
  SLOT(Env, FileExists);
  SLOT(Env, GetChildren);
  SLOT(Env, RemoveFile);
  SLOT(Env, DeleteFile);
  SLOT(Env, CreateDir);
  SLOT(Env, RemoveDir);
  SLOT(Env, DeleteDir);
  SLOT(Env, GetFileSize);
  SLOT(Env, RenameFile);
  SLOT(Env, LockFile);
  SLOT(Env, UnlockFile);
  SLOT(Env, Schedule);
  SLOT(Env, StartThread);
  SLOT(Env, GetTestDirectory);
  SLOT(Env, NewLogger);
  SLOT(Env, NowMicros);
  SLOT(Env, SleepForMicroseconds);
  SLOT(SequentialFile, Read);
  SLOT(SequentialFile, Skip);
  SLOT(RandomAccessFile, Read);
  SLOT(WritableFile, Append);
  SLOT(WritableFile, Close);
  SLOT(WritableFile, Flush);
  SLOT(WritableFile, Sync);
  SLOT(Logger, Logv);
  SLOT(FilterPolicy, Name);
  SLOT(FilterPolicy, CreateFilter);
  SLOT(FilterPolicy, KeyMayMatch);
  SLOT(Iterator, Valid);
  SLOT(Iterator, SeekToFirst);
  SLOT(Iterator, SeekToLast);
  SLOT(Iterator, Seek);
  SLOT(Iterator, Next);
  SLOT(Iterator, Prev);
  SLOT(Iterator, key);
  SLOT(Iterator, value);
  SLOT(Iterator, status);
  SLOT(WriteBatch::Handler, Put);
  SLOT(WriteBatch::Handler, Delete);
}

}  // namespace

int main() {
  using leveldb::Options;
  using leveldb::Range;
  using leveldb::ReadOptions;
  using leveldb::Slice;
  using leveldb::Status;
  using leveldb::WriteOptions;
  FIELD(Options, comparator);
  FIELD(Options, create_if_missing);
  FIELD(Options, error_if_exists);
  FIELD(Options, paranoid_checks);
  FIELD(Options, env);
  FIELD(Options, info_log);
  FIELD(Options, write_buffer_size);
  FIELD(Options, max_open_files);
  FIELD(Options, block_cache);
  FIELD(Options, block_size);
  FIELD(Options, block_restart_interval);
  FIELD(Options, max_file_size);
  FIELD(Options, compression);
  FIELD(Options, reuse_logs);
  FIELD(Options, filter_policy);
  FIELD(ReadOptions, verify_checksums);
  FIELD(ReadOptions, fill_cache);
  FIELD(ReadOptions, snapshot);
  FIELD(WriteOptions, sync);
  Print("Range.start", offsetof(Range, start), sizeof(Range::start), 0);
  Print("Range.limit", offsetof(Range, limit), sizeof(Range::limit), 0);
  PrintSlots();
  CONSTANT(leveldb::kMajorVersion);
  CONSTANT(leveldb::kMinorVersion);
  CONSTANT(leveldb::kNoCompression);
  CONSTANT(leveldb::kSnappyCompression);
  CONSTANT(leveldb_no_compression);
  CONSTANT(leveldb_snappy_compression);
  CONSTANT(leveldb_major_version());
  CONSTANT(leveldb_minor_version());

  // Inline functions of the headers and functions of the library share what a Status points to.
  const Status status = Status::IOError("first", "second");
  std::printf("IOError %s\n", status.ToString().c_str());
  std::printf("NotFound %s\n", Status::NotFound("first").ToString().c_str());
  std::printf("Corruption %s\n", Status::Corruption("first").ToString().c_str());
  std::printf("NotSupported %s\n", Status::NotSupported("first").ToString().c_str());
  std::printf("InvalidArgument %s\n", Status::InvalidArgument("first").ToString().c_str());
  std::printf("OK %s\n", Status::OK().ToString().c_str());
  // The representation itself, for a program and the library may have been compiled with other
  // headers.
  static_assert(sizeof(Status) == sizeof(const unsigned char*), "a Status is a pointer");
  const unsigned char* representation = nullptr;
  std::memcpy(&representation, &status, sizeof representation);
  std::printf("representation");
  for (int i = 0; i < 18; ++i) std::printf(" %02x", static_cast<unsigned>(representation[i]));
  std::printf("\n");

  std::printf("comparator %s\n", leveldb::BytewiseComparator()->Name());
  const leveldb::FilterPolicy* const filter = leveldb::NewBloomFilterPolicy(10);
  std::printf("filter %s\n", filter->Name());
  delete filter;
  return 0;
}
