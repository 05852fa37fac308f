#include "db/serve/request_parser.h"

#include <fmt/core.h>

#include <charconv>
#include <cstring>

namespace dlsm::serve {
namespace {

constexpr size_t kInlineBytesMax = size_t{64} << 10;
constexpr int64_t kArgumentsMax = 1024 * 1024;
constexpr int64_t kUnauthenticatedArgumentsMax = 10;
constexpr int64_t kUnauthenticatedBulkMax = 16384;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

char Unescaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

// Takes a word from the front of `line`, which does not begin with a space. False if a quote is not
// closed, or something follows on it at once.
bool TakeWord(Slice* line, std::string* word) {
  char quote = 0;
  while (!line->empty()) {
    const char c = (*line)[0];
    if (quote == 0) {
      if (IsSpace(c)) return true;
      line->remove_prefix(1);
      if (c == '"' || c == '\'') {
        quote = c;
      } else {
        word->push_back(c);
      }
      continue;
    }
    line->remove_prefix(1);
    if (c == quote) return line->empty() || IsSpace((*line)[0]);
    if (c != '\\' || line->empty()) {
      word->push_back(c);
    } else if (quote == '"' && line->size() >= 3 && (*line)[0] == 'x' &&
               HexDigit((*line)[1]) >= 0 && HexDigit((*line)[2]) >= 0) {
      word->push_back(static_cast<char>(HexDigit((*line)[1]) * 16 + HexDigit((*line)[2])));
      line->remove_prefix(3);
    } else if (quote == '"') {
      word->push_back(Unescaped((*line)[0]));
      line->remove_prefix(1);
    } else if ((*line)[0] == '\'') {
      word->push_back('\'');
      line->remove_prefix(1);
    } else {
      word->push_back(c);
    }
  }
  return quote == 0;
}

}  // namespace

RequestParser::State RequestParser::Fail(const std::string& error) {
  error_ = "ERR Protocol error: " + error;
  return State::kError;
}

RequestParser::State RequestParser::Next(const Slice& bytes, std::vector<Slice>* arguments,
                                         size_t* taken) {
  arguments->clear();
  if (bytes.empty()) return State::kMore;
  was_inline_ = !begun_ && bytes[0] != '*';
  return !was_inline_ ? NextArray(bytes, arguments, taken) : NextInline(bytes, arguments, taken);
}

RequestParser::State RequestParser::NextInline(const Slice& bytes, std::vector<Slice>* arguments,
                                               size_t* taken) {
  const void* const end = std::memchr(bytes.data(), '\n', bytes.size());
  if (end == nullptr) {
    return bytes.size() > kInlineBytesMax ? Fail("too big inline request") : State::kMore;
  }
  Slice line(bytes.data(), static_cast<size_t>(static_cast<const char*>(end) - bytes.data()));
  *taken = line.size() + 1;
  if (!line.empty() && line[line.size() - 1] == '\r') line.remove_suffix(1);
  words_.clear();
  while (true) {
    while (!line.empty() && IsSpace(line[0])) line.remove_prefix(1);
    if (line.empty()) break;
    if (!TakeWord(&line, &words_.emplace_back())) return Fail("unbalanced quotes in request");
  }
  arguments->assign(words_.begin(), words_.end());
  return State::kRequest;
}

RequestParser::State RequestParser::TakeNumber(const Slice& bytes, const char* too_long,
                                               const char* wrong, int64_t* number) {
  const char* const begin = bytes.data() + at_;
  const size_t left = bytes.size() - at_;
  const char* const end = static_cast<const char*>(std::memchr(begin, '\r', left));
  // Its line feed must be there, too.
  if (end == nullptr || end + 1 == bytes.end()) {
    return end == nullptr && left > kInlineBytesMax ? Fail(too_long) : State::kMore;
  }
  const auto [rest, error] = std::from_chars(begin + 1, end, *number);
  if (error != std::errc() || rest != end) return Fail(wrong);
  at_ += static_cast<size_t>(end - begin) + 2;
  return State::kRequest;
}

RequestParser::State RequestParser::NextArray(const Slice& bytes, std::vector<Slice>* arguments,
                                              size_t* taken) {
  if (!begun_) {
    at_ = 0;
    const State state =
        TakeNumber(bytes, "too big mbulk count string", "invalid multibulk length", &left_);
    if (state != State::kRequest) return state;
    if (left_ > kArgumentsMax) return Fail("invalid multibulk length");
    if (!authenticated_ && left_ > kUnauthenticatedArgumentsMax) {
      return Fail("unauthenticated multibulk length");
    }
    begun_ = true;
    bulk_bytes_ = -1;
    found_.clear();
  }
  while (left_ > 0) {
    if (bulk_bytes_ < 0) {
      if (at_ == bytes.size()) return State::kMore;
      if (bytes[at_] != '$') return Fail(fmt::format("expected '$', got '{}'", bytes[at_]));
      int64_t number = 0;
      const State state =
          TakeNumber(bytes, "too big bulk count string", "invalid bulk length", &number);
      if (state != State::kRequest) return state;
      if (number < 0 || number > kBulkBytesMax) return Fail("invalid bulk length");
      if (!authenticated_ && number > kUnauthenticatedBulkMax) {
        return Fail("unauthenticated bulk length");
      }
      bulk_bytes_ = number;
    }
    const auto size = static_cast<size_t>(bulk_bytes_);
    if (bytes.size() - at_ < size + 2) return State::kMore;
    found_.push_back({at_, size});
    at_ += size + 2;
    bulk_bytes_ = -1;
    --left_;
  }
  for (const Span& span : found_) arguments->emplace_back(bytes.data() + span.begin, span.bytes);
  begun_ = false;
  *taken = at_;
  return State::kRequest;
}

}  // namespace dlsm::serve
