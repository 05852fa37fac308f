#include "script/tool/entry_codec.h"

#include <fmt/core.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "dLSM/db.h"
#include "util/coding.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace dlsm::tool {

namespace {

// The least that is asked of a stream at once.
constexpr size_t kChunkBytes = size_t{64} << 10;
// Every byte may be escaped, and a tab stands between.
constexpr size_t kLineBytesMax = 2 * (kKeyBytesMax + kValueBytesMax) + 1;
constexpr size_t kHeaderBytes = 8;

// The part of a stream that is being looked at: grows by chunks that have arrived.
class Window {
 public:
  explicit Window(std::istream* from) : from_(from) {}

  const char* data() const { return buffer_.data() + start_; }
  size_t bytes() const { return end_ - start_; }
  void Drop(size_t bytes) {
    assert(bytes <= this->bytes());
    start_ += bytes;
  }

  // Reads more behind what is there; pointers into the window move. *more is false at the
  // end of the stream.
  Status Grow(bool* more) {
    if (start_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + start_, bytes());
      end_ -= start_;
      start_ = 0;
    }
    if (buffer_.size() - end_ < kChunkBytes) buffer_.resize(2 * end_ + kChunkBytes);
    from_->read(buffer_.data() + end_, static_cast<std::streamsize>(buffer_.size() - end_));
    const auto arrived = static_cast<size_t>(from_->gcount());
    if (from_->bad())
      return Status::IOError("cannot read the input", std::generic_category().message(errno));
    end_ += arrived;
    *more = arrived > 0;
    return Status::OK();
  }

 private:
  std::istream* const from_;
  std::string buffer_;
  size_t start_ = 0;
  size_t end_ = 0;
};

class TsvReader : public EntryReader {
 public:
  explicit TsvReader(std::istream* from) : window_(from) {}

  Status Next(Slice* key, Slice* value, bool* end) override {
    window_.Drop(line_bytes_);
    ++line_number_;
    Slice line;
    DLSM_RETURN_IF_ERROR(FindLine(&line, end));
    if (*end) return Status::OK();
    const size_t tab = line.ToStringView().find('\t');
    if (tab == std::string_view::npos) return Malformed("no tab between key and value");
    const Slice escaped_value(line.data() + tab + 1, line.size() - tab - 1);
    if (escaped_value.ToStringView().find('\t') != std::string_view::npos) {
      return Malformed("more than one tab; write a tab of the data as \\t");
    }
    DLSM_RETURN_IF_ERROR(Field(Slice(line.data(), tab), &key_, key));
    return Field(escaped_value, &value_, value);
  }

 private:
  // The next line without its newline; line_bytes_ with it.
  Status FindLine(Slice* line, bool* end) {
    *end = false;
    size_t searched = 0;
    while (true) {
      const void* newline =
          window_.bytes() == searched
              ? nullptr
              : std::memchr(window_.data() + searched, '\n', window_.bytes() - searched);
      if (newline != nullptr) {
        const auto length = static_cast<size_t>(static_cast<const char*>(newline) - window_.data());
        *line = Slice(window_.data(), length);
        line_bytes_ = length + 1;
        return Status::OK();
      }
      searched = window_.bytes();
      if (searched > kLineBytesMax) return Malformed("the line is longer than any entry can be");
      bool more = false;
      DLSM_RETURN_IF_ERROR(window_.Grow(&more));
      if (!more) {
        *line = Slice(window_.data(), window_.bytes());
        line_bytes_ = window_.bytes();
        *end = line->empty();
        return Status::OK();
      }
    }
  }

  // Most fields have nothing escaped and are used where they lie.
  Status Field(const Slice& escaped, std::string* unescaped, Slice* field) {
    if (escaped.ToStringView().find('\\') == std::string_view::npos) {
      *field = escaped;
      return Status::OK();
    }
    const Status status = Unescape(escaped, unescaped);
    if (!status.ok()) return Malformed(status.message().ToStringView());
    *field = Slice(*unescaped);
    return Status::OK();
  }

  Status Malformed(std::string_view why) const {
    return Status::InvalidArgument(fmt::format("line {}: {}", line_number_, why));
  }

  Window window_;
  size_t line_bytes_ = 0;  // At the window's start: what the last Next() handed out.
  uint64_t line_number_ = 0;
  std::string key_, value_;
};

class BinaryReader : public EntryReader {
 public:
  explicit BinaryReader(std::istream* from) : window_(from) {}

  Status Next(Slice* key, Slice* value, bool* end) override {
    window_.Drop(entry_bytes_);
    offset_ += entry_bytes_;
    entry_bytes_ = 0;
    ++entry_number_;
    DLSM_RETURN_IF_ERROR(Fill(kHeaderBytes));
    *end = window_.bytes() == 0;
    if (*end) return Status::OK();
    if (window_.bytes() < kHeaderBytes) return Malformed("the input ends within its lengths");
    const size_t key_bytes = DecodeFixed32(window_.data());
    const size_t value_bytes = DecodeFixed32(window_.data() + 4);
    if (key_bytes > kKeyBytesMax || value_bytes > kValueBytesMax) {
      return Malformed(
          fmt::format("a key of {} bytes and a value of {}: larger than a database "
                      "takes ({} and {})",
                      key_bytes, value_bytes, kKeyBytesMax, kValueBytesMax));
    }
    const size_t needed = kHeaderBytes + key_bytes + value_bytes;
    DLSM_RETURN_IF_ERROR(Fill(needed));
    if (window_.bytes() < needed) {
      return Malformed(
          fmt::format("the input ends after {} of its {} bytes", window_.bytes(), needed));
    }
    entry_bytes_ = needed;
    *key = Slice(window_.data() + kHeaderBytes, key_bytes);
    *value = Slice(window_.data() + kHeaderBytes + key_bytes, value_bytes);
    return Status::OK();
  }

 private:
  // Until the window has `needed` bytes or the stream ends.
  Status Fill(size_t needed) {
    bool more = true;
    while (more && window_.bytes() < needed) DLSM_RETURN_IF_ERROR(window_.Grow(&more));
    return Status::OK();
  }

  Status Malformed(std::string_view why) const {
    return Status::InvalidArgument(
        fmt::format("entry {}, at byte {}: {}", entry_number_, offset_, why));
  }

  Window window_;
  size_t entry_bytes_ = 0;
  uint64_t offset_ = 0;
  uint64_t entry_number_ = 0;
};

class BufferedWriter : public EntryWriter {
 public:
  BufferedWriter(EntryFormat format, std::ostream* to) : format_(format), to_(to) {}

  Status Write(const Slice& key, const Slice& value) override {
    if (format_ == EntryFormat::kTsv) {
      AppendEscaped(&buffer_, key);
      buffer_.push_back('\t');
      AppendEscaped(&buffer_, value);
      buffer_.push_back('\n');
    } else {
      PutFixed32(&buffer_, static_cast<uint32_t>(key.size()));
      PutFixed32(&buffer_, static_cast<uint32_t>(value.size()));
      buffer_.append(key.data(), key.size());
      buffer_.append(value.data(), value.size());
    }
    return buffer_.size() < kChunkBytes ? Status::OK() : Drain();
  }

  Status Flush() override {
    DLSM_RETURN_IF_ERROR(Drain());
    to_->flush();
    return Verdict();
  }

 private:
  Status Drain() {
    to_->write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
    return Verdict();
  }
  Status Verdict() const {
    return to_->good()
               ? Status::OK()
               : Status::IOError("cannot write the output", std::generic_category().message(errno));
  }

  const EntryFormat format_;
  std::ostream* const to_;
  std::string buffer_;
};

}  // namespace

bool EntryFormatFromName(const std::string& name, EntryFormat* format) {
  if (name == "tsv") {
    *format = EntryFormat::kTsv;
  } else if (name == "binary") {
    *format = EntryFormat::kBinary;
  } else {
    return false;
  }
  return true;
}

std::unique_ptr<EntryReader> NewEntryReader(EntryFormat format, std::istream* from) {
  if (format == EntryFormat::kTsv) return std::make_unique<TsvReader>(from);
  return std::make_unique<BinaryReader>(from);
}

std::unique_ptr<EntryWriter> NewEntryWriter(EntryFormat format, std::ostream* to) {
  return std::make_unique<BufferedWriter>(format, to);
}

}  // namespace dlsm::tool
