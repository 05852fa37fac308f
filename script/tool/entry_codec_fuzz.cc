// Reads arbitrary bytes as entries. What is read must come back the same through a writer.
#include <cstdlib>
#include <sstream>
#include <string>

#include "script/tool/entry_codec.h"

namespace {

using dlsm::Slice;
using dlsm::tool::EntryFormat;

// The entries before the end or the first error, written again.
std::string Rewritten(EntryFormat format, const std::string& bytes) {
  std::istringstream from(bytes);
  std::ostringstream to;
  const auto reader = dlsm::tool::NewEntryReader(format, &from);
  const auto writer = dlsm::tool::NewEntryWriter(format, &to);
  while (true) {
    Slice key;
    Slice value;
    bool end = false;
    if (!reader->Next(&key, &value, &end).ok() || end) break;
    if (!writer->Write(key, value).ok()) std::abort();
  }
  if (!writer->Flush().ok()) std::abort();
  return to.str();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const EntryFormat format : {EntryFormat::kTsv, EntryFormat::kBinary}) {
    const std::string once = Rewritten(format, bytes);
    if (Rewritten(format, once) != once) std::abort();
  }
  return 0;
}
