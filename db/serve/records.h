// How keys of Redis lie in a database of dLSM. Its keys, in bytewise order:
//
//   'e' collection 8 ...          an element
//   'g' collection 8              a collection to be deleted
//   'k' database 1, key           a head, and a string's value
//   's' name                      the server's own
//   'x' expiry 8, key of a head   when a collection expires
//
// A note of an expiry counts only as long as the head says the same.
//
// So the keys of one Redis database are in their own order, next to each other. A head is
//
//   type 1 (| 0x80: with an expiry)  expiry 8?  value of the string, or  collection 8  type's own
//
// A collection has a number that is never used again. To delete one is to delete its head and to
// note the number, whatever it has; its elements go later, in the background.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dLSM/compaction_filter.h"
#include "dLSM/slice.h"

namespace dlsm::serve {

enum class Type : uint8_t { kString = 1, kList, kSet, kSortedSet, kHash };
// Drops strings that have expired; Options::compaction_filter of a database of dlsm_serve.
std::shared_ptr<const CompactionFilter> ExpiredStringsFilter();
// As TYPE names it.
const char* TypeName(Type type);

using CollectionId = uint64_t;
// Milliseconds since 1970; 0: none.
using ExpiryTime = int64_t;

struct Head {
  Type type = Type::kString;
  ExpiryTime expiry = 0;
  Slice value;  // Of a string, the string; of a collection, what follows its number.
  CollectionId collection = 0;

  bool IsExpired(int64_t now) const { return expiry != 0 && expiry <= now; }
  void AppendTo(std::string* to) const;
};
// None if `bytes`, which come from the database, are no head.
std::optional<Head> DecodeHead(const Slice& bytes);

inline constexpr int kDatabases = 16;

// Elements, garbage and heads of all databases lie in [kFirstKey, kEndOfKeys).
inline constexpr const char* kFirstKey = "e";
inline constexpr const char* kEndOfKeys = "l";

std::string HeadKey(int database, const Slice& key);
// Behind all heads of the database.
std::string HeadKeyEnd(int database);
// The key of Redis in that of a head.
inline Slice KeyOfHead(const Slice& head_key) {
  return Slice(head_key.data() + 2, head_key.size() - 2);
}

std::string ElementKey(CollectionId collection, const Slice& rest);
std::string ElementKeyEnd(CollectionId collection);
std::string GarbageKey(CollectionId collection);
// None if `key` is no such key.
std::optional<CollectionId> CollectionOfGarbage(const Slice& key);

std::string ExpiryKey(ExpiryTime expiry, const Slice& head_key);
// Sets what an ExpiryKey() was made of; *head_key points into `key`. Returns false if it is none.
bool ParseExpiryKey(const Slice& key, ExpiryTime* expiry, Slice* head_key);

// Numbers as bytes that are ordered as the numbers are.
void PutOrdered64(std::string* to, uint64_t number);
uint64_t Ordered64(const char* at);
// No NaN; -0 is 0.
void PutOrderedDouble(std::string* to, double number);
double OrderedDouble(const char* at);

}  // namespace dlsm::serve
