// What commands of all types do with keys and numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dLSM/slice.h"
#include "db/serve/command.h"
#include "db/serve/records.h"

namespace dlsm::serve {

inline constexpr const char* kWrongType =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
inline constexpr const char* kNotAnInteger = "ERR value is not an integer or out of range";
inline constexpr const char* kNotAFloat = "ERR value is not a valid float";
inline constexpr const char* kSyntaxError = "ERR syntax error";
inline constexpr const char* kNoSuchKey = "ERR no such key";

// As Redis reads numbers: nothing before or behind it, no "+", no leading zero.
bool ParseInteger(const Slice& text, int64_t* number);
bool ParseDouble(const Slice& text, double* number);
bool ParseLongDouble(const Slice& text, long double* number);

// As Redis prints long doubles: 17 digits behind the point, without zeros at the end.
std::string LongDoubleText(long double number);

// None if there is no such key, or it has expired.
std::optional<Head> FindHead(const Call& call, const Slice& key);
// Likewise, and counts whether it was there.
std::optional<Head> ReadHead(const Call& call, const Slice& key);
// Likewise, of a string. False if there is something else: then that has been answered.
bool ReadString(const Call& call, const Slice& key, std::optional<Head>* head);

// Of a key that is locked by its round. The elements of the head before must be given up first.
void PutHead(const Call& call, const Slice& key, const Head& head);
void PutString(const Call& call, const Slice& key, const Slice& value, ExpiryTime expiry);
// Deletes whatever the key has, and returns whether that had not expired.
bool DeleteKey(const Call& call, const Slice& key);
// Deletes all keys of Redis whose heads are in [from, to), and sets *count to how many there were;
// null: nobody asks. All keys are locked.
void DeleteKeysBetween(const Call& call, const std::string& from, const std::string& to,
                       int64_t* count);
// The elements of what the key has are given up, if it has any. The head is about to be written
// over.
void GiveUpElements(const Call& call, const Slice& key);
// Tells the clients that watch the key that it has changed.
void NoteChange(const Call& call, const Slice& key);

// Whether a pattern of KEYS, SCAN and the like matches.
bool MatchesPattern(const Slice& pattern, const Slice& text);

}  // namespace dlsm::serve
