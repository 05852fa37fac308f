// Opens a database on the memory node inside this process, writes, reads and iterates.
#include <iostream>
#include <memory>
#include <string>

#include "dLSM/db.h"
#include "dLSM/write_batch.h"

namespace {

dlsm::Status WriteAndRead(dlsm::DB* db) {
  dlsm::WriteBatch batch;
  batch.Put("apple", "red");
  batch.Put("banana", "yellow");
  batch.Put("cherry", "dark");
  batch.Delete("cherry");
  dlsm::Status status = db->Write(dlsm::WriteOptions(), &batch);
  if (!status.ok()) return status;

  status = db->Flush(dlsm::FlushOptions());  // From here on the data is in remote memory.
  if (!status.ok()) return status;

  std::string value;
  status = db->Get(dlsm::ReadOptions(), "banana", &value);
  if (!status.ok()) return status;
  std::cout << "banana is " << value << "\n";

  const std::unique_ptr<dlsm::Iterator> iterator(db->NewIterator(dlsm::ReadOptions()));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    std::cout << iterator->key().ToStringView() << " = " << iterator->value().ToStringView()
              << "\n";
  }
  return iterator->status();
}

}  // namespace

int main() {
  dlsm::Options options;
  options.create_if_missing = true;
  std::unique_ptr<dlsm::DB> db;
  dlsm::Status status = dlsm::DB::Open(options, "sample", &db);
  if (status.ok()) status = WriteAndRead(db.get());
  if (status.ok()) status = db->Close();
  if (!status.ok()) std::cerr << status.ToString() << "\n";
  return status.ok() ? 0 : 1;
}
