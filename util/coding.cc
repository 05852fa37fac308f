#include "util/coding.h"

#include <limits>

namespace dlsm {
namespace {

// Little-endian groups of seven bits; a set high bit says that another group follows.
constexpr unsigned char kMore = 0x80;

template <typename Integer>
char* EncodeVarint(char* to, Integer value) {
  while (value >= kMore) {
    *to++ = static_cast<char>(value | kMore);
    value >>= 7;
  }
  *to++ = static_cast<char>(value);
  return to;
}

// Rejects groups whose bits do not fit, so that every accepted string has one meaning in one width.
template <typename Integer>
const char* DecodeVarint(const char* from, const char* limit, Integer* value) {
  constexpr int kBits = std::numeric_limits<Integer>::digits;
  Integer result = 0;
  for (int shift = 0; shift < kBits && from < limit; shift += 7) {
    const auto group = static_cast<unsigned char>(*from++);
    const auto bits = static_cast<Integer>(group & (kMore - 1));
    if (kBits - shift < 7 && (bits >> (kBits - shift)) != 0) return nullptr;
    result |= bits << shift;
    if ((group & kMore) == 0) {
      *value = result;
      return from;
    }
  }
  return nullptr;
}

template <typename Integer>
bool GetFixed(Slice* from, Integer* value) {
  if (from->size() < sizeof(Integer)) return false;
  std::memcpy(value, from->data(), sizeof(Integer));
  from->remove_prefix(sizeof(Integer));
  return true;
}

bool Advance(Slice* from, const char* to) {
  if (to == nullptr) return false;
  from->remove_prefix(static_cast<size_t>(to - from->data()));
  return true;
}

}  // namespace

char* EncodeVarint32Slow(char* to, uint32_t value) { return EncodeVarint(to, value); }
char* EncodeVarint64(char* to, uint64_t value) { return EncodeVarint(to, value); }

const char* DecodeVarint32Slow(const char* from, const char* limit, uint32_t* value) {
  return DecodeVarint(from, limit, value);
}
const char* DecodeVarint64(const char* from, const char* limit, uint64_t* value) {
  return DecodeVarint(from, limit, value);
}

void PutVarint32(std::string* to, uint32_t value) {
  char bytes[kVarint32BytesMax];
  to->append(bytes, static_cast<size_t>(EncodeVarint32(bytes, value) - bytes));
}
void PutVarint64(std::string* to, uint64_t value) {
  char bytes[kVarint64BytesMax];
  to->append(bytes, static_cast<size_t>(EncodeVarint64(bytes, value) - bytes));
}
void PutLengthPrefixed(std::string* to, const Slice& value) {
  assert(value.size() <= std::numeric_limits<uint32_t>::max());
  PutVarint32(to, static_cast<uint32_t>(value.size()));
  to->append(value.data(), value.size());
}

bool GetFixed8(Slice* from, uint8_t* value) { return GetFixed(from, value); }
bool GetFixed32(Slice* from, uint32_t* value) { return GetFixed(from, value); }
bool GetFixed64(Slice* from, uint64_t* value) { return GetFixed(from, value); }
bool GetVarint32(Slice* from, uint32_t* value) {
  return Advance(from, DecodeVarint32(from->data(), from->data() + from->size(), value));
}
bool GetVarint64(Slice* from, uint64_t* value) {
  return Advance(from, DecodeVarint64(from->data(), from->data() + from->size(), value));
}
bool GetLengthPrefixed(Slice* from, Slice* value) {
  uint32_t bytes = 0;
  if (!GetVarint32(from, &bytes) || from->size() < bytes) return false;
  *value = Slice(from->data(), bytes);
  from->remove_prefix(bytes);
  return true;
}

bool GetLengthPrefixed(Slice* from, std::string* value) {
  Slice bytes;
  if (!GetLengthPrefixed(from, &bytes)) return false;
  value->assign(bytes.data(), bytes.size());
  return true;
}

}  // namespace dlsm
