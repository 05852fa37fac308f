#include "db/serve/records.h"

#include <bit>

#include "util/coding.h"

namespace dlsm::serve {
namespace {

constexpr char kElement = 'e';
constexpr char kGarbage = 'g';
constexpr char kHead = 'k';
constexpr uint8_t kHasExpiry = 0x80;

std::string Numbered(char kind, uint64_t number) {
  std::string key(1, kind);
  PutOrdered64(&key, number);
  return key;
}

constexpr uint64_t kSignBit = uint64_t{1} << 63;

}  // namespace

// The most significant byte first.
void PutOrdered64(std::string* to, uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) to->push_back(static_cast<char>(number >> shift));
}
uint64_t Ordered64(const char* at) {
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | static_cast<uint8_t>(at[i]);
  return number;
}

// Times are positive.
std::string ExpiryKey(ExpiryTime expiry, const Slice& head_key) {
  std::string key = "x";
  PutOrdered64(&key, static_cast<uint64_t>(expiry));
  return key + head_key.ToString();
}

bool ParseExpiryKey(const Slice& key, ExpiryTime* expiry, Slice* head_key) {
  constexpr size_t kHeaderBytes = 1 + sizeof(uint64_t);
  if (key.size() < kHeaderBytes || key[0] != 'x') return false;
  *expiry = static_cast<ExpiryTime>(Ordered64(key.data() + 1));
  *head_key = Slice(key.data() + kHeaderBytes, key.size() - kHeaderBytes);
  return true;
}

// Of numbers below zero, the larger the bits are as an integer, the smaller the number.
void PutOrderedDouble(std::string* to, double number) {
  const auto bits = std::bit_cast<uint64_t>(number == 0 ? 0.0 : number);
  PutOrdered64(to, (bits & kSignBit) != 0 ? ~bits : bits | kSignBit);
}
double OrderedDouble(const char* at) {
  const uint64_t bits = Ordered64(at);
  return std::bit_cast<double>((bits & kSignBit) != 0 ? bits & ~kSignBit : ~bits);
}

const char* TypeName(Type type) {
  switch (type) {
    case Type::kString:
      return "string";
    case Type::kList:
      return "list";
    case Type::kSet:
      return "set";
    case Type::kSortedSet:
      return "zset";
    case Type::kHash:
      return "hash";
  }
  return "none";
}

// A collection's head stays: it leads to its elements.
std::shared_ptr<const CompactionFilter> ExpiredStringsFilter() {
  constexpr char kTag = static_cast<char>(static_cast<uint8_t>(Type::kString) | kHasExpiry);
  return NewExpiryFilter("k", Slice(&kTag, 1));
}

void Head::AppendTo(std::string* to) const {
  to->push_back(static_cast<char>(static_cast<uint8_t>(type) | (expiry != 0 ? kHasExpiry : 0)));
  if (expiry != 0) PutFixed64(to, static_cast<uint64_t>(expiry));
  if (type != Type::kString) PutFixed64(to, collection);
  to->append(value.data(), value.size());
}

std::optional<Head> DecodeHead(const Slice& bytes) {
  Slice rest = bytes;
  if (rest.empty()) return std::nullopt;
  const auto tag = static_cast<uint8_t>(rest[0]);
  rest.remove_prefix(1);
  Head head;
  const uint8_t type = tag & ~kHasExpiry;
  if (type < static_cast<uint8_t>(Type::kString) || type > static_cast<uint8_t>(Type::kHash)) {
    return std::nullopt;
  }
  head.type = static_cast<Type>(type);
  const auto take = [&rest](uint64_t* number) {
    if (rest.size() < sizeof(*number)) return false;
    *number = DecodeFixed64(rest.data());
    rest.remove_prefix(sizeof(*number));
    return true;
  };
  if ((tag & kHasExpiry) != 0) {
    uint64_t expiry;
    if (!take(&expiry)) return std::nullopt;
    head.expiry = static_cast<ExpiryTime>(expiry);
  }
  if (head.type != Type::kString && !take(&head.collection)) return std::nullopt;
  head.value = rest;
  return head;
}

std::string HeadKey(int database, const Slice& key) {
  std::string head_key;
  head_key.reserve(2 + key.size());
  head_key.push_back(kHead);
  head_key.push_back(static_cast<char>(database));
  head_key.append(key.data(), key.size());
  return head_key;
}

std::string HeadKeyEnd(int database) { return {kHead, static_cast<char>(database + 1)}; }

std::string ElementKey(CollectionId collection, const Slice& rest) {
  std::string key = Numbered(kElement, collection);
  key.append(rest.data(), rest.size());
  return key;
}

std::string ElementKeyEnd(CollectionId collection) { return Numbered(kElement, collection + 1); }

std::string GarbageKey(CollectionId collection) { return Numbered(kGarbage, collection); }

std::optional<CollectionId> CollectionOfGarbage(const Slice& key) {
  if (key.size() != 1 + sizeof(CollectionId) || key[0] != kGarbage) return std::nullopt;
  return Ordered64(key.data() + 1);
}

}  // namespace dlsm::serve
