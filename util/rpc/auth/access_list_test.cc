#include "util/rpc/auth/access_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "util/status_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kSecret = "0123456789abcdef";

Status Parse(const std::string& text, AccessList* list) {
  return AccessList::Parse(text, "the file", list);
}

TEST(AccessListTest, PatternsMatchWhatTheySay) {
  const std::pair<const char*, const char*> yes[] = {
      {"", ""},      {"a", "a"},         {"", "*"},       {"abc", "*"},     {"abc", "a*c"},
      {"ac", "a*c"}, {"aXbXc", "a*b*c"}, {"abab", "*ab"}, {"aaab", "a*ab"}, {"abc", "abc***"}};
  for (const auto& [text, pattern] : yes) EXPECT_TRUE(MatchesPattern(text, pattern)) << pattern;
  const std::pair<const char*, const char*> no[] = {
      {"a", ""}, {"", "a"}, {"ab", "a"}, {"a", "ab"}, {"abcd", "a*c"}, {"ba", "a*"}, {"ab", "b*"}};
  for (const auto& [text, pattern] : no) EXPECT_FALSE(MatchesPattern(text, pattern)) << pattern;
}

// Fails if a shard's or range's name opens what its database's does not, or the other way round.
TEST(AccessListTest, RightsAreThoseOfTheLine) {
  AccessList list;
  ASSERT_OK(Parse(std::string("# ours\n\nalice ") + kSecret +
                      " own=orders,new-* read=catalog # ours too\nbob " + kSecret + "#x\n",
                  &list));
  const auto alice = list.Find("alice");
  ASSERT_NE(alice, nullptr);
  EXPECT_EQ(alice->secret(), kSecret);
  for (const char* name :
       {"orders", "orders#shard-1", "orders#range-1#tables-of-shard-0", "new-", "new-x#shard-7"}) {
    EXPECT_TRUE(alice->MayOwn(name)) << name;
    EXPECT_TRUE(alice->MayRead(name)) << name;
  }
  EXPECT_FALSE(alice->MayOwn("catalog#shard-1"));
  EXPECT_TRUE(alice->MayRead("catalog#shard-1"));
  for (const char* name : {"", "order", "orders2", "x#orders", "#orders", "xnew-", "orders#eu",
                           "orders#", "catalog#shard-", "orders#eu#shard-1"}) {
    EXPECT_FALSE(alice->MayRead(name)) << name;
  }
  ASSERT_NE(list.Find("bob"), nullptr);
  EXPECT_EQ(list.Find("bob")->secret(), std::string(kSecret) + "#x");
  EXPECT_FALSE(list.Find("bob")->MayRead("orders"));
  EXPECT_EQ(list.Find("carol"), nullptr);
  EXPECT_EQ(list.Find(""), nullptr);
}

// Fails if a mistake passes, is not named with its line, or shows a secret.
TEST(AccessListTest, MistakesAreNamed) {
  const std::string good = std::string("alice ") + kSecret + "\n";
  const std::pair<std::string, const char*> wrong[] = {
      {good + "bob", "there is no secret"},
      {good + "bob short", "5 characters"},
      {good + "alice " + kSecret, "a line for 'alice' before"},
      {good + "bob " + kSecret + " write=x", "own= and read="},
      {good + std::string(65, 'n') + " " + kSecret, "too long"}};
  for (const auto& [text, why] : wrong) {
    AccessList list;
    const Status status = Parse(text, &list);
    EXPECT_TRUE(status.IsInvalidArgument()) << text;
    EXPECT_THAT(status.ToString(), HasSubstr("the file:2"));
    EXPECT_THAT(status.ToString(), HasSubstr(why));
    EXPECT_THAT(status.ToString(), Not(HasSubstr(kSecret)));
  }
}

TEST(AccessListTest, TheFileIsItsOwnersAlone) {
  const std::string path = testing::TempDir() + "/dlsm-access-" + std::to_string(getpid());
  std::ofstream(path) << "alice " << kSecret << " own=*\n";
  std::shared_ptr<AccessList> list;
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(AccessList::Read(path, &list).ToString(), HasSubstr("chmod 600"));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_OK(AccessList::Read(path, &list));
  EXPECT_EQ(list->size(), 1u);
  std::remove(path.c_str());
}

// Fails if a client at work does not have the rights of the newest list, loses those that it still
// has, or goes on with a secret that is no longer its own.
TEST(AccessListTest, AnotherListTakesItsPlace) {
  AccessList list;
  ASSERT_OK(Parse(std::string("alice ") + kSecret + " own=a,b\nbob " + kSecret + " own=c\ncarol " +
                      kSecret + " own=d\n",
                  &list));
  const auto alice = list.Find("alice");
  const auto bob = list.Find("bob");
  const auto carol = list.Find("carol");
  AccessList next;
  ASSERT_OK(Parse(std::string("alice ") + kSecret + " own=b read=c\ncarol " + kSecret +
                      "-another own=d\ndave " + kSecret + "\n",
                  &next));
  list.Replace(next);
  EXPECT_EQ(list.size(), 3u);
  EXPECT_EQ(list.Find("alice"), alice);
  EXPECT_FALSE(alice->revoked());
  EXPECT_FALSE(alice->MayRead("a"));
  EXPECT_TRUE(alice->MayOwn("b"));
  EXPECT_TRUE(alice->MayRead("c"));
  EXPECT_TRUE(bob->revoked());
  EXPECT_FALSE(bob->MayRead("c"));
  EXPECT_EQ(list.Find("bob"), nullptr);
  EXPECT_TRUE(carol->revoked());
  EXPECT_FALSE(carol->MayOwn("d"));
  EXPECT_FALSE(list.Find("carol")->revoked());
  EXPECT_TRUE(list.Find("carol")->MayOwn("d"));
  EXPECT_NE(list.Find("dave"), nullptr);
}

}  // namespace
}  // namespace dlsm
