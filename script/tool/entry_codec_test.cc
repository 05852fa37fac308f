#include "script/tool/entry_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "util/coding.h"
#include "util/named_testing.h"
#include "util/random.h"

namespace dlsm::tool {

namespace {

using Entry = std::pair<std::string, std::string>;

std::string Encode(EntryFormat format, const std::vector<Entry>& entries) {
  std::ostringstream stream;
  const auto writer = NewEntryWriter(format, &stream);
  for (const auto& [key, value] : entries) EXPECT_TRUE(writer->Write(key, value).ok());
  EXPECT_TRUE(writer->Flush().ok());
  return stream.str();
}

// The entries before the end or the first error.
Status Decode(EntryFormat format, const std::string& bytes, std::vector<Entry>* entries) {
  std::istringstream stream(bytes);
  const auto reader = NewEntryReader(format, &stream);
  entries->clear();
  while (true) {
    Slice key;
    Slice value;
    bool end = false;
    const Status status = reader->Next(&key, &value, &end);
    if (!status.ok() || end) return status;
    entries->emplace_back(key.ToString(), value.ToString());
  }
}

std::vector<Entry> Awkward() {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes.push_back(static_cast<char>(byte));
  return {
      {"", ""},
      {"key", ""},
      {"", "value"},
      {all_bytes, all_bytes},
      {std::string(3, '\0'), "\n\t\\\r"},
      {"\\t", "\\n\\0"},
      {"long", std::string(size_t{3} << 20, '\t')},  // Doubles when it is escaped.
      {std::string(kKeyBytesMax, 'k'), "v"},
  };
}

class EntryCodecTest : public testing::TestWithParam<Named<EntryFormat>> {};

// Fails if a byte is lost or doubled, or if entries larger than the reader's chunk break.
TEST_P(EntryCodecTest, ArbitraryBytesSurvive) {
  std::vector<Entry> decoded;
  const Status status = Decode(GetParam(), Encode(GetParam(), Awkward()), &decoded);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(decoded, Awkward());
}

// Fails if entries that straddle the chunks of the reader are cut.
TEST_P(EntryCodecTest, ManyEntriesSurvive) {
  std::vector<Entry> entries;
  for (int i = 0; i < 50000; ++i) {
    entries.emplace_back(std::to_string(i), std::string(static_cast<size_t>(i % 97), '\\'));
  }
  std::vector<Entry> decoded;
  ASSERT_TRUE(Decode(GetParam(), Encode(GetParam(), entries), &decoded).ok());
  EXPECT_EQ(decoded, entries);
}

TEST_P(EntryCodecTest, NothingIsNoEntries) {
  std::vector<Entry> decoded;
  EXPECT_TRUE(Decode(GetParam(), "", &decoded).ok());
  EXPECT_TRUE(decoded.empty());
}

// Fails if a truncated input crashes, or yields an entry that was not there. Cut between entries it
// is whole; TSV cut within a value cannot be told from a shorter value.
TEST_P(EntryCodecTest, TruncationYieldsAPrefix) {
  const std::vector<Entry> entries = {{"first", "1"}, {"", ""}, {"a\tb", "c\nd"}};
  const std::string bytes = Encode(GetParam(), entries);
  for (size_t length = 0; length < bytes.size(); ++length) {
    SCOPED_TRACE(length);
    std::vector<Entry> decoded;
    const Status status = Decode(GetParam(), bytes.substr(0, length), &decoded);
    EXPECT_TRUE(status.ok() || status.IsInvalidArgument()) << status.ToString();
    ASSERT_LE(decoded.size(), entries.size());
    const size_t sure = decoded.empty() ? 0 : decoded.size() - 1;
    for (size_t i = 0; i < sure; ++i) EXPECT_EQ(decoded[i], entries[i]);
    if (GetParam() == EntryFormat::kBinary && !decoded.empty()) {
      EXPECT_EQ(decoded.back(), entries[sure]);
    }
  }
}

// Fails if any input crashes a reader or makes it run on (checked by the sanitizers).
TEST_P(EntryCodecTest, DamageIsAnErrorOrOtherEntries) {
  const std::string bytes = Encode(GetParam(), {{"first", "1"}, {"", ""}, {"a\tb", "c\nd"}});
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      std::vector<Entry> decoded;
      const Status status = Decode(GetParam(), damaged, &decoded);
      EXPECT_TRUE(status.ok() || status.IsInvalidArgument()) << status.ToString();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, EntryCodecTest,
                         testing::Values(Named<EntryFormat>{"tsv", EntryFormat::kTsv},
                                         Named<EntryFormat>{"binary", EntryFormat::kBinary}),
                         NameOf<EntryFormat>);

TEST(EntryCodec, TsvIsAsDocumented) {
  EXPECT_EQ(Encode(EntryFormat::kTsv, {{"k", "v"}, {"a\tb", Slice("\n\\\0", 3).ToString()}}),
            "k\tv\na\\tb\t\\n\\\\\\0\n");
}

TEST(EntryCodec, BinaryIsAsDocumented) {
  EXPECT_EQ(Encode(EntryFormat::kBinary, {{"k", "val"}}),
            Slice("\x01\0\0\0\x03\0\0\0kval", 12).ToString());
}

TEST(EntryCodec, LastNewlineMayBeMissing) {
  std::vector<Entry> decoded;
  ASSERT_TRUE(Decode(EntryFormat::kTsv, "a\t1\nb\t2", &decoded).ok());
  EXPECT_EQ(decoded, (std::vector<Entry>{{"a", "1"}, {"b", "2"}}));
}

// Fails if a message does not lead to the place that is wrong.
TEST(EntryCodec, MalformedLinesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\t1\nno tab\n", "line 2: no tab"},       {"a\t1\n\nb\t2\n", "line 2: no tab"},
      {"a\t1\t2\n", "line 1: more than one tab"}, {"a\t1\nb\t\\x\n", "line 2: unknown escape"},
      {"a\\\t1\n", "line 1: a lone backslash"},
  };
  for (const auto& [bytes, message] : cases) {
    std::vector<Entry> decoded;
    const Status status = Decode(EntryFormat::kTsv, bytes, &decoded);
    EXPECT_TRUE(status.IsInvalidArgument());
    EXPECT_THAT(status.ToString(), testing::HasSubstr(message));
  }
}

TEST(EntryCodec, MalformedBinaryIsNamed) {
  const std::string whole = Encode(EntryFormat::kBinary, {{"k", "v"}});
  std::vector<Entry> decoded;
  Status status = Decode(EntryFormat::kBinary, whole + "abc", &decoded);
  EXPECT_THAT(status.ToString(), testing::HasSubstr("entry 2, at byte 10: the input ends"));
  EXPECT_EQ(decoded.size(), 1u);
  status = Decode(EntryFormat::kBinary, whole + whole.substr(0, 9), &decoded);
  EXPECT_THAT(status.ToString(), testing::HasSubstr("ends after 9 of its 10 bytes"));
}

// Fails if a length is believed before it is checked: 4 GB would be allocated.
TEST(EntryCodec, HostileLengthsAreRefused) {
  for (const auto& [key_bytes, value_bytes] :
       std::vector<std::pair<uint32_t, uint32_t>>{{0xffffffff, 0}, {0, 0xffffffff}}) {
    std::string bytes;
    PutFixed32(&bytes, key_bytes);
    PutFixed32(&bytes, value_bytes);
    bytes.append(100, 'x');
    std::vector<Entry> decoded;
    const Status status = Decode(EntryFormat::kBinary, bytes, &decoded);
    EXPECT_THAT(status.ToString(), testing::HasSubstr("larger than a database takes"));
  }
}

TEST(EntryCodec, FailingStreamIsReported) {
  std::ostringstream stream;
  stream.setstate(std::ios::badbit);
  const auto writer = NewEntryWriter(EntryFormat::kTsv, &stream);
  ASSERT_TRUE(writer->Write("k", "v").ok());  // Still buffered.
  EXPECT_TRUE(writer->Flush().IsIOError());
}

}  // namespace

}  // namespace dlsm::tool
