// How a point is found: the memory that the keys before a given one take can be asked for without
// reading them. So the point is searched by halving the key space, as fractions between two keys:
// of two byte strings the middle one is their mean as binary fractions. What is found in the end is
// any string; the first key behind it becomes the point.
#include "script/tool/split_points.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "script/tool/entry_codec.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace dlsm::tool {
namespace {

uint64_t BytesBetween(DB* db, const std::string& from, const std::string& to) {
  const Range range(from, to);
  uint64_t bytes;
  db->GetApproximateSizes(&range, 1, &bytes);
  return bytes;
}

// (low + high) / 2, one byte longer than either.
std::string Middle(const std::string& low, const std::string& high) {
  const size_t size = std::max(low.size(), high.size()) + 1;
  std::string middle(size, '\0');
  std::vector<unsigned> sums(size);
  for (size_t i = 0; i < size; ++i) {
    const unsigned of_low = i < low.size() ? static_cast<unsigned char>(low[i]) : 0;
    const unsigned of_high = i < high.size() ? static_cast<unsigned char>(high[i]) : 0;
    sums[i] = of_low + of_high;
  }
  unsigned carry = 0;  // Into the digit before.
  for (size_t i = size; i-- > 0;) {
    sums[i] += carry;
    carry = sums[i] >> 8;
    sums[i] &= 0xff;
  }
  unsigned rest = carry;  // Half of a digit goes to the next one.
  for (size_t i = 0; i < size; ++i) {
    const unsigned digit = sums[i] + (rest << 8);
    middle[i] = static_cast<char>(digit / 2);
    rest = digit % 2;
  }
  while (!middle.empty() && middle.back() == '\0') middle.pop_back();
  return middle;
}

Status FirstAndLast(DB* db, std::string* first, std::string* last) {
  const std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  it->SeekToFirst();
  if (it->Valid()) *first = it->key().ToString();
  it->SeekToLast();
  if (it->Valid()) *last = it->key().ToString();
  return it->status();
}

// A string before which about `bytes` lie.
std::string Search(DB* db, const std::string& first, const std::string& last, uint64_t bytes,
                   uint64_t near_enough) {
  constexpr int kStepsMax = 400;  // A step for each bit: keys that have 50 bytes in common.
  std::string low = first;
  std::string high = last;
  for (int step = 0; step < kStepsMax; ++step) {
    std::string middle = Middle(low, high);
    if (middle <= low || middle >= high) break;
    const uint64_t before = BytesBetween(db, first, middle);
    (before < bytes ? low : high) = std::move(middle);
    const uint64_t off = before < bytes ? bytes - before : before - bytes;
    if (off <= near_enough) return before < bytes ? low : high;
  }
  return high;
}

}  // namespace

Status FindSplitPoints(DB* db, size_t parts, std::vector<std::string>* points) {
  constexpr uint64_t kShareOfPart = 100;  // How exact: a hundredth.
  DLSM_RETURN_IF_ERROR(db->Flush(FlushOptions()));
  std::string first;
  std::string last;
  DLSM_RETURN_IF_ERROR(FirstAndLast(db, &first, &last));
  const uint64_t total = BytesBetween(db, first, last);
  std::vector<std::string> found;
  const std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  for (size_t i = 1; i < parts; ++i) {
    const uint64_t bytes = total / parts * i;
    it->Seek(Search(db, first, last, bytes, total / parts / kShareOfPart));
    DLSM_RETURN_IF_ERROR(it->status());
    if (!it->Valid() || it->key() == Slice(first) ||
        (!found.empty() && it->key() == Slice(found.back()))) {
      return Status::InvalidArgument(
          fmt::format("the database is too small to find {} parts of it", parts),
          "ask for fewer, or load more of the data");
    }
    found.push_back(it->key().ToString());
  }
  *points = std::move(found);
  return Status::OK();
}

Status ReadSplitPoints(std::istream* in, std::vector<std::string>* points) {
  std::vector<std::string> read;
  for (std::string line; std::getline(*in, line);) {
    DLSM_RETURN_IF_ERROR(Unescape(line, &read.emplace_back()));
  }
  if (in->bad()) return Status::IOError("it cannot be read to its end", "is it a file?");
  if (read.empty()) {
    return Status::InvalidArgument("there are no keys in it",
                                   "write them with split-points; where that fails it writes none");
  }
  *points = std::move(read);
  return Status::OK();
}

}  // namespace dlsm::tool
