// Events outlive the daemon: what is kept comes back, and of what lies in the file's place only what is
// whole.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <memory>

#include "daemon/sessions/journal.h"
#include "tests/daemon/temporary_directory.h"

namespace terrace::daemon {
namespace {

using tests::TemporaryDirectory;

struct JournalFileFixture {
  TemporaryDirectory directory;
  std::string path = directory / "t.sock.events";
  KeptFile file() const { return KeptFile(directory / "t.sock", "events", nullptr); }

  static JournalEntry entry(std::uint32_t uid, std::string text) {
    return {0, 7, 3, uid, std::make_shared<const std::string>("training"), "joined", std::move(text), {}, 0};
  }
  // What the next daemon has.
  std::vector<JournalEntry> again() const {
    Journal journal;
    journal.keep_in(file());
    std::vector<JournalEntry> entries;
    for (const JournalEntry* each : journal.after(0, Journal::capacity)) entries.push_back(*each);
    return entries;
  }
  void change(std::streamoff at, char value) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at).put(value);
    REQUIRE(file.good());
  }
};

}  // namespace

TEST_CASE_METHOD(JournalFileFixture, "EventsAreThereAfterTheDaemon") {
  {
    Journal journal;
    journal.keep_in(file());
    journal.add(entry(1000, "one"));
    JournalEntry moved{0, 8, 4, 1001, nullptr, "evict", {}, {}, 0};
    moved.event = {.time_ns = 8,
                   .address = 4096,
                   .call_site = 5,
                   .bytes = 6,
                   .position = 7,
                   .kind = wire::EventKind::evict,
                   .flags = 1,
                   .detail = 2};
    journal.add(moved);
  }
  const auto entries = again();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].number == 1);
  CHECK(entries[0].time_ns == 7);
  CHECK(entries[0].session == 3);
  CHECK(entries[0].uid == 1000);
  CHECK(*entries[0].job == "training");
  CHECK(entries[0].kind == "joined");
  CHECK(entries[0].text == "one");
  CHECK(entries[1].number == 2);
  CHECK(entries[1].job == nullptr);
  CHECK(entries[1].event.address == 4096);
  CHECK(entries[1].event.call_site == 5);
  CHECK(entries[1].event.bytes == 6);
  CHECK(entries[1].event.position == 7);
  CHECK(entries[1].event.kind == wire::EventKind::evict);
  CHECK(entries[1].event.flags == 1);
  CHECK(entries[1].event.detail == 2);
}

TEST_CASE_METHOD(JournalFileFixture, "NumbersGoOnAndAFullJournalComesBackWhole") {
  for (std::uint64_t life = 0; life < 3; ++life) {
    Journal journal;
    journal.keep_in(file());
    CHECK(journal.last_number() == life * 3000);
    for (int i = 0; i < 3000; ++i) journal.add(entry(1000, std::to_string(i)));
  }
  const auto entries = again();
  REQUIRE(entries.size() == Journal::capacity);
  for (std::size_t i = 0; i < entries.size(); ++i)
    REQUIRE(entries[i].number == 9000 - Journal::capacity + 1 + i);
  CHECK(entries.back().text == "2999");
}

TEST_CASE_METHOD(JournalFileFixture, "ALongTextKeepsItsBeginningAndWholeCharacters") {
  std::string text;
  while (text.size() < 2 * JournalFile::most_text) text += "ä";
  for (const bool odd : {false, true}) {
    Journal journal;
    journal.keep_in(file());
    journal.add(entry(1, (odd ? "x" : "") + text));
    const std::string kept = again().back().text;
    CHECK(kept.size() <= JournalFile::most_text);
    CHECK(kept.size() >= JournalFile::most_text - 1);
    CHECK(kept.substr(kept.size() - 5) == "ä…");
  }
}

TEST_CASE_METHOD(JournalFileFixture, "AnEntryThatIsNotWholeIsLeftOut") {
  {
    Journal journal;
    journal.keep_in(file());
    for (int i = 0; i < 3; ++i) journal.add(entry(1000, std::to_string(i)));
  }
  change(64 + 512 + 300, 'x');  // the second one
  const auto entries = again();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].text == "0");
  CHECK(entries[1].text == "2");
  Journal journal;
  journal.keep_in(file());
  CHECK(journal.last_number() == 3);
}

TEST_CASE_METHOD(JournalFileFixture, "WhatIsNoneOfOursCountsAsNothing") {
  {
    Journal journal;
    journal.keep_in(file());
    journal.add(entry(1000, "one"));
  }
  SECTION("another start of the machine") { change(20, '!'); }
  SECTION("another version") { change(4, 2); }
  SECTION("cut short") { REQUIRE(::truncate(path.c_str(), 600) == 0); }
  SECTION("longer") { change(64 + (Journal::capacity + 1) * 512, 'x'); }
  SECTION("open to others") { REQUIRE(::chmod(path.c_str(), 0644) == 0); }
  SECTION("with a second name") { REQUIRE(::link(path.c_str(), (path + "2").c_str()) == 0); }
  SECTION("a link") {
    REQUIRE(::rename(path.c_str(), (path + "2").c_str()) == 0);
    REQUIRE(::symlink((path + "2").c_str(), path.c_str()) == 0);
  }
  CHECK(again().empty());
  struct stat made {};
  REQUIRE(::lstat(path.c_str(), &made) == 0);
  CHECK(S_ISREG(made.st_mode));
  CHECK((made.st_mode & 0777) == 0600);
}

TEST_CASE_METHOD(JournalFileFixture, "WithoutAFileTheJournalGoesOn") {
  Journal journal;
  journal.keep_in(KeptFile(directory / "missing/t.sock", "events", nullptr));
  journal.add(entry(1000, "one"));
  CHECK(journal.after(0, 10).size() == 1);
}

}  // namespace terrace::daemon
