#include "db/serve/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace dlsm::serve {

bool ParseInteger(const Slice& text, int64_t* number) {
  if (text.empty()) return false;
  const bool negative = text[0] == '-';
  const size_t digits = text.size() - (negative ? 1 : 0);
  const char first = digits > 0 ? text[negative ? 1 : 0] : 'x';
  if (first == '0' && (digits > 1 || negative)) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.end();
}

namespace {

template <typename Number>
bool ParseFloating(const Slice& text, Number (*parse)(const char*, char**), Number* number) {
  constexpr size_t kBytesMax = 5 * 1024;
  if (text.empty() || text.size() >= kBytesMax) return false;
  const char first = text[0];
  if (first == ' ' || (first >= '\t' && first <= '\r')) return false;
  const std::string terminated = text.ToString();
  char* end = nullptr;
  *number = parse(terminated.c_str(), &end);
  return end == terminated.c_str() + terminated.size() && !std::isnan(*number);
}

}  // namespace

bool ParseLongDouble(const Slice& text, long double* number) {
  return ParseFloating(text, &std::strtold, number);
}

bool ParseDouble(const Slice& text, double* number) {
  return ParseFloating(text, &std::strtod, number);
}

std::string LongDoubleText(long double number) {
  std::string text = fmt::format("{:.17f}", number);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::optional<Head> FindHead(const Call& call, const Slice& key) {
  const std::optional<Slice> stored = call.round.Get(HeadKey(call.session.database, key));
  if (!stored.has_value()) return std::nullopt;
  std::optional<Head> head = DecodeHead(*stored);
  if (!head.has_value()) {
    call.round.Report(Status::Corruption("a key has no head that dlsm_serve has written"));
    return std::nullopt;
  }
  if (head->IsExpired(call.round.now())) return std::nullopt;
  return head;
}

std::optional<Head> ReadHead(const Call& call, const Slice& key) {
  std::optional<Head> head = FindHead(call, key);
  ++(head.has_value() ? call.server.hits : call.server.misses);
  return head;
}

bool ReadString(const Call& call, const Slice& key, std::optional<Head>* head) {
  *head = ReadHead(call, key);
  if (!head->has_value() || (*head)->type == Type::kString) return true;
  call.reply.Error(kWrongType);
  return false;
}

namespace {

// Strings need no note: merges see when they expire.
void NoteExpiry(const Call& call, const std::string& head_key, const Head& head) {
  const std::optional<Slice> stored = call.round.Get(head_key);
  const std::optional<Head> before = stored.has_value() ? DecodeHead(*stored) : std::nullopt;
  const bool is_noted =
      before.has_value() && before->type != Type::kString && before->expiry == head.expiry;
  if (!is_noted) call.round.Put(ExpiryKey(head.expiry, head_key), Slice());
}

}  // namespace

void PutHead(const Call& call, const Slice& key, const Head& head) {
  std::string bytes;
  bytes.reserve(head.value.size() + 17);
  head.AppendTo(&bytes);
  std::string head_key = HeadKey(call.session.database, key);
  if (head.expiry != 0 && head.type != Type::kString) NoteExpiry(call, head_key, head);
  call.server.store->watches().NoteChange(head_key);
  call.round.Put(std::move(head_key), std::move(bytes));
}

void PutString(const Call& call, const Slice& key, const Slice& value, ExpiryTime expiry) {
  Head head;
  head.value = value;
  head.expiry = expiry;
  PutHead(call, key, head);
}

bool DeleteKey(const Call& call, const Slice& key) {
  const std::string head_key = HeadKey(call.session.database, key);
  const std::optional<Slice> stored = call.round.Get(head_key);
  if (!stored.has_value()) return false;
  const std::optional<Head> head = DecodeHead(*stored);
  const bool expired = head.has_value() && head->IsExpired(call.round.now());
  if (expired) ++call.server.expired;
  if (head.has_value() && head->type != Type::kString) {
    call.round.Put(GarbageKey(head->collection), Slice());
  }
  call.round.Delete(head_key);
  call.server.store->watches().NoteChange(head_key);
  return !expired;
}

// The heads go by one tombstone. They are only looked at if there may be collections, whose
// elements lie elsewhere, or if they are to be counted.
void DeleteKeysBetween(const Call& call, const std::string& from, const std::string& to,
                       int64_t* count) {
  Watches& watches = call.server.store->watches();
  for (const std::string& head_key : watches.WatchedIn(from, to)) {
    if (call.round.Get(head_key).has_value()) watches.NoteChange(head_key);
  }
  std::vector<CollectionId> collections;
  int64_t live = 0;
  if (count != nullptr || call.server.store->has_collections()) {
    call.round.Scan(from, to, /*reverse=*/false, [&](const Slice&, const Slice& value) {
      const std::optional<Head> head = DecodeHead(value);
      if (!head.has_value()) return true;
      if (head->type != Type::kString) collections.push_back(head->collection);
      live += head->IsExpired(call.round.now()) ? 0 : 1;
      return true;
    });
  }
  call.round.DeleteRange(from, to);
  for (const CollectionId collection : collections) {
    call.round.Put(GarbageKey(collection), Slice());
  }
  if (count != nullptr) *count = live;
}

void GiveUpElements(const Call& call, const Slice& key) {
  if (!call.server.store->has_collections()) return;
  const std::optional<Slice> stored = call.round.Get(HeadKey(call.session.database, key));
  if (!stored.has_value()) return;
  const std::optional<Head> head = DecodeHead(*stored);
  if (head.has_value() && head->type != Type::kString) {
    call.round.Put(GarbageKey(head->collection), Slice());
  }
}

void NoteChange(const Call& call, const Slice& key) {
  call.server.store->watches().NoteChange(HeadKey(call.session.database, key));
}

namespace {

// Takes a set of characters, as "[a-z]", from the front of *pattern, behind its "[".
bool MatchesSet(Slice* pattern, char c) {
  const bool negated = !pattern->empty() && (*pattern)[0] == '^';
  if (negated) pattern->remove_prefix(1);
  bool found = false;
  while (!pattern->empty() && (*pattern)[0] != ']') {
    if ((*pattern)[0] == '\\' && pattern->size() >= 2) {
      found |= (*pattern)[1] == c;
      pattern->remove_prefix(2);
    } else if (pattern->size() >= 3 && (*pattern)[1] == '-') {
      const char low = std::min((*pattern)[0], (*pattern)[2]);
      const char high = std::max((*pattern)[0], (*pattern)[2]);
      found |= c >= low && c <= high;
      pattern->remove_prefix(3);
    } else {
      found |= (*pattern)[0] == c;
      pattern->remove_prefix(1);
    }
  }
  if (!pattern->empty()) pattern->remove_prefix(1);
  return found != negated;
}

}  // namespace

// On a mismatch it goes back to the last "*", and lets that take one character more: earlier ones
// need not be tried again.
bool MatchesPattern(const Slice& whole_pattern, const Slice& whole_text) {
  Slice pattern = whole_pattern;
  Slice text = whole_text;
  std::optional<Slice> star_pattern;
  Slice star_text;
  while (true) {
    bool matches = true;
    Slice rest = pattern;
    if (rest.empty()) {
      if (text.empty()) return true;
      matches = false;
    } else if (rest[0] == '*') {
      rest.remove_prefix(1);
      star_pattern = rest;
      star_text = text;
      pattern = rest;
      continue;
    } else if (text.empty()) {
      return false;
    } else {
      const char c = rest[0];
      rest.remove_prefix(1);
      if (c == '[') {
        matches = MatchesSet(&rest, text[0]);
      } else if (c == '\\' && !rest.empty()) {
        matches = rest[0] == text[0];
        rest.remove_prefix(1);
      } else if (c != '?') {
        matches = c == text[0];
      }
    }
    if (matches) {
      pattern = rest;
      text.remove_prefix(1);
      continue;
    }
    if (!star_pattern.has_value() || star_text.empty()) return false;
    star_text.remove_prefix(1);
    pattern = *star_pattern;
    text = star_text;
  }
}

}  // namespace dlsm::serve
