#include "db/serve/acl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "db/serve/command.h"
#include "db/serve/server_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm::serve {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kWrongPass = "-WRONGPASS invalid username-password pair or user is disabled.";
// Of "secret".
constexpr const char* kSecretHash =
    "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

// Fails if rules are applied in another way than Redis does, or are not described so that they can
// be read again.
TEST(AclRulesTest, RulesAreDescribedAsTheyAreRead) {
  AclRules rules;
  EXPECT_EQ(rules.Describe(), "off resetchannels -@all");
  for (const char* rule : {"on", ">secret", "ALLKEYS", "+@read", "-get", "+@connection", "+get"}) {
    EXPECT_EQ(rules.Apply(rule), "") << rule;
  }
  EXPECT_EQ(rules.Describe(),
            std::string("on #") + kSecretHash + " ~* resetchannels -@all +@read +@connection +get");
  EXPECT_TRUE(rules.Accepts("secret"));
  EXPECT_FALSE(rules.Accepts("Secret"));
  AclRules again;
  again.Apply("on");
  again.Apply(std::string("#") + kSecretHash);
  for (const char* rule : {"~*", "-@all", "+@read", "+@connection", "+get"}) again.Apply(rule);
  EXPECT_EQ(again, rules);
  EXPECT_TRUE(rules.allowed.test(FindCommand("get")->number));
  EXPECT_TRUE(rules.allowed.test(FindCommand("ping")->number));
  EXPECT_FALSE(rules.allowed.test(FindCommand("set")->number));
  EXPECT_EQ(rules.Apply("allcommands"), "");
  EXPECT_EQ(rules.Apply("-@write"), "");
  EXPECT_EQ(rules.DescribeCommands(), "+@all -@write");
  EXPECT_FALSE(rules.allowed.test(FindCommand("del")->number));
  EXPECT_TRUE(rules.allowed.test(FindCommand("info")->number));
  rules.Apply("reset");
  EXPECT_EQ(rules, AclRules());
}

TEST(AclRulesTest, WrongRulesAreExplained) {
  AclRules rules;
  EXPECT_EQ(rules.Apply("foo"), "Syntax error");
  EXPECT_EQ(rules.Apply(""), "Syntax error");
  EXPECT_EQ(rules.Apply("+foo"), "Unknown command or category name in ACL");
  EXPECT_EQ(rules.Apply("+@foo"), "Unknown command or category name in ACL");
  EXPECT_THAT(rules.Apply("+config|get"), HasSubstr("subcommands are not supported"));
  EXPECT_THAT(rules.Apply("~a*"), HasSubstr("keys are not supported"));
  EXPECT_THAT(rules.Apply("%R~a*"), HasSubstr("keys are not supported"));
  EXPECT_THAT(rules.Apply("(+get ~a)"), HasSubstr("Selectors"));
  EXPECT_THAT(rules.Apply("#abc"), HasSubstr("exactly 64 characters"));
  EXPECT_THAT(rules.Apply("<never"), HasSubstr("does not exist"));
  EXPECT_EQ(rules, AclRules());
}

class AclTest : public ServerTest {
 protected:
  // Makes a file with such users.
  std::string FileWith(const std::string& text) {
    const std::string path = directory_ / "users";
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }
  const TemporaryDirectory directory_;
};

TEST_F(AclTest, UsersMayDoWhatTheirRulesSay) {
  Start();
  TestClient admin = NewClient();
  EXPECT_EQ(admin("acl whoami"), "\"default\"");
  EXPECT_EQ(admin("acl list"), "[\"user default on nopass ~* &* +@all\"]");
  EXPECT_EQ(admin("acl setuser reader on >secret ~* +@read"), "OK");
  EXPECT_EQ(admin("acl users"), "[\"default\", \"reader\"]");
  EXPECT_EQ(admin("acl getuser nobody"), "nil");
  EXPECT_EQ(admin("acl getuser reader"),
            std::string("[\"flags\", [\"on\"], \"passwords\", [\"") + kSecretHash +
                "\"], \"commands\", \"-@all +@read\", \"keys\", \"~*\", \"channels\", \"\", "
                "\"selectors\", []]");
  admin("set a 1");
  TestClient reader = NewClient();
  EXPECT_EQ(reader("auth reader wrong"), kWrongPass);
  EXPECT_EQ(reader("auth nobody secret"), kWrongPass);
  EXPECT_EQ(reader("auth reader secret"), "OK");
  EXPECT_EQ(reader("get a"), "\"1\"");
  EXPECT_EQ(reader("set a 2"), "-NOPERM this user has no permissions to run the 'set' command");
  EXPECT_EQ(reader("acl whoami"), "-NOPERM this user has no permissions to run the 'acl' command");
  EXPECT_EQ(admin("acl setuser reader resetkeys"), "OK");
  EXPECT_EQ(reader("get a"),
            "-NOPERM this user has no permissions to access one of the keys used as arguments");
  EXPECT_THAT(reader("dlsm.range \"\" \"\""), StartsWith("-NOPERM"));
  EXPECT_EQ(admin("acl dryrun reader set a 1"),
            "\"This user has no permissions to run the 'set' command\"");
  EXPECT_EQ(admin("acl dryrun reader get a"),
            "\"This user has no permissions to access the 'a' key\"");
  EXPECT_EQ(admin("acl dryrun default get a"), "OK");
  EXPECT_EQ(admin("acl dryrun nobody get a"), "-ERR User 'nobody' not found");
  EXPECT_EQ(admin("acl setuser reader off"), "OK");
  EXPECT_EQ(NewClient()("auth reader secret"), kWrongPass);
  EXPECT_EQ(admin("acl setuser x +foo"),
            "-ERR Error in ACL SETUSER modifier '+foo': Unknown command or category name in ACL");
  EXPECT_EQ(admin("acl setuser \"a b\""), "-ERR Usernames can't contain spaces or null characters");
  EXPECT_EQ(admin("acl users"), "[\"default\", \"reader\"]");
  EXPECT_EQ(admin("acl deluser default"), "-ERR The 'default' user cannot be removed");
  EXPECT_EQ(admin("acl load").substr(0, 24), "-ERR This Redis instance");
  EXPECT_EQ(admin("acl genpass").size(), 64u + 2);
  EXPECT_EQ(admin("acl genpass 5").size(), 2u + 2);
  EXPECT_THAT(admin("acl genpass 5000"), StartsWith("-ERR ACL GENPASS argument"));
  EXPECT_THAT(admin("acl cat"), HasSubstr("\"dangerous\""));
  EXPECT_THAT(admin("acl cat hash"), HasSubstr("\"hgetall\""));
  EXPECT_EQ(admin("acl cat foo"), "-ERR Unknown category 'foo'");
  EXPECT_THAT(admin("acl foo"), StartsWith("-ERR unknown subcommand 'foo'"));
  EXPECT_EQ(admin("acl whoami x"), "-ERR wrong number of arguments for 'acl|whoami' command");
}

TEST_F(AclTest, HelloTakesUsers) {
  Start();
  TestClient admin = NewClient();
  admin("acl setuser alice on >secret ~* +@all");
  TestClient alice = NewClient();
  EXPECT_EQ(alice("hello 3 auth alice wrong"), kWrongPass);
  EXPECT_THAT(alice("hello 3 auth alice secret"), HasSubstr("\"proto\", (3)"));
  EXPECT_EQ(alice("acl whoami"), "\"alice\"");
  EXPECT_THAT(alice("client info"), HasSubstr("user=alice"));
  EXPECT_EQ(alice("reset"), "RESET");
  EXPECT_EQ(alice("acl whoami"), "\"default\"");
}

// Fails if a default user that is off, or has a password, lets connections in.
TEST_F(AclTest, TheDefaultUserCanBeClosed) {
  Start();
  TestClient admin = NewClient();
  admin("acl setuser alice on >secret ~* +@all");
  EXPECT_EQ(admin("acl setuser default off"), "OK");
  TestClient other = NewClient();
  EXPECT_EQ(other("ping"), "-NOAUTH Authentication required.");
  EXPECT_EQ(other("auth alice secret"), "OK");
  EXPECT_EQ(other("ping"), "PONG");
  EXPECT_EQ(other("acl setuser default on >word"), "OK");
  TestClient third = NewClient();
  EXPECT_EQ(third("ping"), "-NOAUTH Authentication required.");
  EXPECT_EQ(third("auth word"), "OK");
  EXPECT_EQ(third("ping"), "PONG");
}

TEST_F(AclTest, AUserWhoIsDeletedIsCutOff) {
  RespServerOptions options;
  options.threads = 2;
  Start(options);
  TestClient admin = NewClient();
  admin("acl setuser alice on >secret ~* +@all");
  TestClient one = NewClient();
  TestClient two = NewClient();
  EXPECT_EQ(one("auth alice secret"), "OK");
  EXPECT_EQ(two("auth alice secret"), "OK");
  EXPECT_EQ(admin("acl deluser alice nobody"), "(1)");
  EXPECT_EQ(one.Receive(), "closed");
  EXPECT_EQ(two.Receive(), "closed");
  EXPECT_EQ(NewClient()("auth alice secret"), kWrongPass);
  // A user that deletes itself is told so.
  admin("acl setuser alice on >secret ~* +@all");
  TestClient self = NewClient();
  self("auth alice secret");
  EXPECT_EQ(self("acl deluser alice"), "(1)");
  EXPECT_EQ(self.Receive(), "closed");
}

// Fails if a transaction does what its user may not do any more.
TEST_F(AclTest, TransactionsObeyRulesAtTheirEnd) {
  Start();
  TestClient admin = NewClient();
  admin("acl setuser alice on >secret ~* +@all");
  TestClient alice = NewClient();
  alice("auth alice secret");
  alice("multi");
  alice("set a 1");
  alice("get a");
  admin("acl setuser alice -@write");
  EXPECT_THAT(alice("exec"), HasSubstr("[-NOPERM ACLs rules changed between"));
  EXPECT_EQ(alice("get a"), "nil");
  alice("multi");
  EXPECT_THAT(alice("set a 1"), StartsWith("-NOPERM"));
  EXPECT_EQ(alice("exec"), "-EXECABORT Transaction discarded because of previous errors.");
}

// Fails if a request is run without the locks it needs when its user gets the right to run it
// between the moment at which its round looked for locks and that at which it ran.
TEST_F(AclTest, RightsThatComeAndGoLoseNoAdditions) {
  RespServerOptions options;
  options.threads = 3;
  Start(options);
  TestClient admin = NewClient();
  admin("acl setuser alice on >secret ~* +@all");
  std::vector<std::thread> threads;
  std::atomic<int> added{0};
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      TestClient redis = NewClient();
      redis("auth alice secret");
      for (int i = 0; i < 300; ++i) {
        for (int j = 0; j < 10; ++j) redis.Send({"INCR", "n"});
        for (int j = 0; j < 10; ++j) added += redis.Receive().starts_with("(") ? 1 : 0;
      }
    });
  }
  for (int i = 0; i < 500; ++i)
    admin(i % 2 == 0 ? "acl setuser alice -incr" : "acl setuser alice +incr");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admin("get n"), '"' + std::to_string(added) + '"');
}

TEST_F(AclTest, FilesHaveUsers) {
  RespServerOptions options;
  options.password = "the secret of the server";
  options.acl_file = FileWith("user alice on >secret ~* +@all\n\nuser bob off nopass -@all\n");
  Start(options);
  TestClient alice = NewClient();
  EXPECT_EQ(alice("ping"), "-NOAUTH Authentication required.");
  EXPECT_EQ(alice("auth alice secret"), "OK");
  EXPECT_EQ(alice("acl users"), "[\"alice\", \"bob\", \"default\"]");
  TestClient other = NewClient();
  EXPECT_EQ(other("auth \"the secret of the server\""), "OK");
  EXPECT_EQ(other("acl setuser carol on nopass ~* +@read"), "OK");
  EXPECT_EQ(other("acl save"), "OK");
  EXPECT_EQ(other("acl setuser dave"), "OK");
  EXPECT_EQ(other("acl load"), "OK");
  EXPECT_EQ(other("acl users"), "[\"alice\", \"bob\", \"carol\", \"default\"]");
  EXPECT_EQ(alice("ping"), "PONG") << "what has not changed is not cut off";
  // A broken file changes nothing.
  FileWith("user alice on >other ~* +@all\nuser bob on +foo\n");
  EXPECT_EQ(other("acl load"),
            "-ERR " + options.acl_file +
                ":2: user 'bob': Unknown command or category name in ACL. WARNING: ACL errors "
                "detected, no change to the previously active ACL rules was performed");
  EXPECT_EQ(NewClient()("auth alice secret"), "OK");
  FileWith("user alice on\nuser alice off\n");
  EXPECT_THAT(other("acl load"), HasSubstr(":2: duplicate user 'alice'"));
  FileWith("alice on\n");
  EXPECT_THAT(other("acl load"), HasSubstr(":1: a line begins with"));
  ASSERT_EQ(chmod(options.acl_file.c_str(), 0644), 0);
  EXPECT_THAT(other("acl load"), HasSubstr("chmod 600"));
  // One that changes a user cuts it off.
  FileWith("user alice on >other ~* +@all\n");
  EXPECT_EQ(other("acl load"), "OK");
  EXPECT_EQ(alice.Receive(), "closed");
  EXPECT_EQ(NewClient()("auth alice other"), "OK");
}

// Fails if a password that has been replaced is still good, or if a client that gave it is cut off.
TEST_F(AclTest, ThePasswordIsReplaced) {
  RespServerOptions options;
  options.password = "the first password";
  Start(options);
  TestClient before = NewClient();
  EXPECT_EQ(before("auth \"the first password\""), "OK");
  server_->SetPassword("the second password");
  EXPECT_EQ(before("ping"), "PONG");
  TestClient after = NewClient();
  EXPECT_EQ(after("auth \"the first password\""), kWrongPass);
  EXPECT_EQ(after("auth \"the second password\""), "OK");
}

TEST_F(AclTest, RequirePassIsThePasswordOfTheDefaultUser) {
  Start();
  TestClient admin = NewClient();
  EXPECT_EQ(admin("config set requirepass word"), "OK");
  TestClient other = NewClient();
  EXPECT_EQ(other("ping"), "-NOAUTH Authentication required.");
  EXPECT_EQ(other("auth word"), "OK");
  EXPECT_EQ(admin("config set requirepass \"\""), "OK");
  EXPECT_EQ(NewClient()("ping"), "PONG");
}

TEST_F(AclTest, TheSlowLogShowsNoPasswords) {
  Start();
  TestClient redis = NewClient();
  redis("config set slowlog-log-slower-than 0");
  redis("acl setuser alice on >secret");
  redis("auth alice secret");
  EXPECT_THAT(redis("slowlog get"), testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace dlsm::serve
