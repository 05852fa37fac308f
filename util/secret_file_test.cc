#include "util/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "util/status_testing.h"
#include "util/temporary_file_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

TEST(SecretFileTest, WhiteSpaceAroundTheSecretDoesNotCount) {
  for (const mode_t mode : {0600, 0400, 0700}) {
    const TemporaryFile file(" \topen sesame, will you\r\n\n", mode);
    std::string secret;
    ASSERT_OK(ReadSecretFile(file.path(), &secret));
    EXPECT_EQ(secret, "open sesame, will you");
  }
}

// Fails if a secret that others can read is used as if it were one.
TEST(SecretFileTest, RefusesFilesThatAreOpenToOthers) {
  for (const mode_t mode : {0640, 0604, 0620, 0610, 0644, 0777}) {
    const TemporaryFile file("secret", mode);
    std::string secret;
    const Status status = ReadSecretFile(file.path(), &secret);
    EXPECT_TRUE(status.IsInvalidArgument());
    EXPECT_THAT(status.ToString(), HasSubstr("run: chmod 600 " + file.path()));
    EXPECT_THAT(status.ToString(), testing::Not(HasSubstr("\"secret\"")));
    EXPECT_EQ(secret, "");
  }
}

// Fails if an empty file silently means no secret.
TEST(SecretFileTest, RefusesFilesWithoutSecret) {
  std::string secret;
  for (const char* contents : {"", "\n", " \r\n\t"}) {
    const TemporaryFile file(contents);
    EXPECT_THAT(ReadSecretFile(file.path(), &secret).ToString(), HasSubstr("is empty: make one"));
  }
  EXPECT_THAT(ReadSecretFile("/nowhere/secret", &secret).ToString(), HasSubstr("No such file"));
  const TemporaryFile large(std::string(5000, 'x'));
  EXPECT_THAT(ReadSecretFile(large.path(), &secret).ToString(), HasSubstr("is it the right file"));
}

// Fails if a secret is taken that can be found by trying.
TEST(SecretFileTest, RefusesSecretsThatAreTooShort) {
  std::string secret;
  for (const size_t bytes : {size_t{1}, kSecretBytesMin - 1}) {
    const TemporaryFile file("  " + std::string(bytes, 'q') + "\n");
    const Status status = ReadSecretFile(file.path(), &secret);
    EXPECT_TRUE(status.IsInvalidArgument());
    EXPECT_THAT(status.ToString(), HasSubstr("openssl rand -hex 32 > " + file.path()));
    EXPECT_THAT(status.ToString(), testing::Not(HasSubstr("qqqqqq")));
    EXPECT_EQ(secret, "");
  }
  const TemporaryFile file(std::string(kSecretBytesMin, 'q') + "\n");
  ASSERT_OK(ReadSecretFile(file.path(), &secret));
  EXPECT_EQ(secret, std::string(kSecretBytesMin, 'q'));
}

}  // namespace
}  // namespace dlsm
