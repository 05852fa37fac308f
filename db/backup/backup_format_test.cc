// The bytes of backups: damage anywhere is found, and named.
#include "db/backup/backup_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "db/backup/backup_testing.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

BackupInfo Facts() {
  BackupInfo info;
  info.written_unix_micros = 1234567890123456;
  info.comparator = "an order";
  info.filter_policy = "a policy";
  info.shard_boundaries = {"", "b", std::string("\0\n", 2)};
  return info;
}

// Three blocks: plain, compressed, and of one entry.
std::string Sample(Entries* entries) {
  std::string file = EncodeBackupHeader(Facts());
  BackupFooter footer;
  BackupBlockBuilder builder(kSnappyCompression);
  const auto add = [&](const std::string& key, const std::string& value) {
    builder.Add(key, value);
    entries->emplace(key, value);
    ++footer.entries;
    footer.bytes += key.size() + value.size();
  };
  const auto finish = [&] {
    file += builder.Finish().ToString();
    ++footer.blocks;
  };
  add("", "");
  add("a", "1234567890");
  finish();
  for (char c = 'b'; c < 'h'; ++c) add(std::string(1, c), std::string(30, c));
  finish();
  add("z", std::string("\0\xff", 2));
  finish();
  footer.file_crc = Crc32c(file);
  return file + footer.Encode();
}

TEST(BackupFormat, RoundTrip) {
  Entries entries;
  const std::string file = Sample(&entries);
  Entries read;
  ASSERT_OK(ReadEntries(file, &read));
  EXPECT_EQ(read, entries);
  std::unique_ptr<BackupReader> reader;
  ASSERT_OK(BackupReader::Open("bytes", std::make_unique<StringBytes>(file), &reader));
  EXPECT_EQ(reader->info().comparator, "an order");
  EXPECT_EQ(reader->info().filter_policy, "a policy");
  EXPECT_EQ(reader->info().shard_boundaries, Facts().shard_boundaries);
  EXPECT_EQ(reader->info().written_unix_micros, Facts().written_unix_micros);
  EXPECT_EQ(reader->info().blocks, 3U);
}

// Fails if a byte is covered by no checksum.
TEST(BackupFormat, EveryFlippedBitIsFound) {
  Entries entries;
  const std::string file = Sample(&entries);
  for (size_t at = 0; at < file.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      Entries read;
      const Status status = ReadEntries(damaged, &read);
      ASSERT_TRUE(status.IsCorruption()) << at << ": " << status.ToString();
      EXPECT_THAT(status.ToString(), HasSubstr("backup bytes: offset "));
      EXPECT_THAT(status.ToString(), HasSubstr("use another backup"));
    }
  }
}

TEST(BackupFormat, EveryTruncationAndEveryByteBehindIsFound) {
  Entries entries;
  const std::string file = Sample(&entries);
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    Entries read;
    EXPECT_TRUE(ReadEntries(file.substr(0, bytes), &read).IsCorruption()) << bytes;
  }
  Entries read;
  EXPECT_TRUE(ReadEntries(file + "x", &read).IsCorruption());
}

// Checksums of blocks do not tell one block from another.
TEST(BackupFormat, BlocksThatChangedPlacesAreFound) {
  std::string file = EncodeBackupHeader(Facts());
  BackupBlockBuilder builder(kNoCompression);
  builder.Add("a", "1");
  const std::string first = builder.Finish().ToString();
  builder.Add("b", "2");
  const std::string second = builder.Finish().ToString();
  BackupFooter footer;
  footer.blocks = 2;
  footer.entries = 2;
  footer.bytes = 4;
  footer.file_crc = Crc32c(file + first + second);
  Entries read;
  EXPECT_OK(ReadEntries(file + first + second + footer.Encode(), &read));
  const Status swapped = ReadEntries(file + second + first + footer.Encode(), &read);
  EXPECT_TRUE(swapped.IsCorruption()) << swapped.ToString();
  // A block that is missing is found even with the checksum of the rest.
  footer.file_crc = Crc32c(file + first);
  EXPECT_THAT(ReadEntries(file + first + footer.Encode(), &read).ToString(),
              HasSubstr("2 entries in 2 blocks, but there are 1 in 1"));
}

TEST(BackupFormat, LaterVersionsAreNamed) {
  std::string file = EncodeBackupHeader(Facts());
  EncodeFixed32(file.data() + kBackupMagicBytes, 2);
  std::string covered = file.substr(kBackupMagicBytes, 8) + file.substr(kBackupHeaderBytes);
  EncodeFixed32(file.data() + kBackupMagicBytes + 8, Crc32c(covered));
  Entries read;
  const Status status = ReadEntries(file, &read);
  EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("version 2, and this library reads up to 1"));
}

TEST(BackupFormat, OtherFilesAreNoBackups) {
  Entries read;
  for (const char* text : {"", "DLSM", "#!/bin/sh\necho a script, which is long enough\n"}) {
    const Status status = ReadEntries(text, &read);
    EXPECT_TRUE(status.IsCorruption());
    EXPECT_THAT(status.ToString(), HasSubstr("no backup begins here"));
  }
}

}  // namespace
}  // namespace dlsm
