// The judge of packets: what is well formed passes unchanged, and each way to be malformed is refused.
#include "liballoc/wire/protocol.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <vector>

using namespace terrace;

namespace {

template <class Message>
std::vector<std::byte> packet_of(const Message& message) {
  const auto* first = reinterpret_cast<const std::byte*>(&message);
  return {first, first + sizeof message};
}

int judge(const std::vector<std::byte>& packet, wire::Header* header = nullptr) {
  wire::Header ignored;
  return wire::check_packet(packet.data(), packet.size(), header != nullptr ? header : &ignored);
}

template <class Change>
int judge_changed_hello(Change change) {
  wire::Hello hello = wire::make<wire::Hello>();
  change(hello.header);
  return judge(packet_of(hello));
}

}  // namespace

TEMPLATE_TEST_CASE("every fixed message passes and comes back under its type", "", wire::Hello, wire::Goodbye,
                   wire::Log, wire::Welcome, wire::Refused, wire::Budget, wire::Trim, wire::Writes,
                   wire::Reply) {
  wire::Header header;
  REQUIRE(judge(packet_of(wire::make<TestType>()), &header) == 0);
  CHECK(header.type == TestType::type);
  CHECK(header.length == sizeof(TestType) - sizeof(wire::Header));
}

TEST_CASE("the fields of a greeting survive the trip") {
  wire::Hello hello = wire::make<wire::Hello>();
  wire::copy_text(hello.job, sizeof hello.job, "train");
  hello.requested_budget_bytes = 123;
  hello.flags = wire::hello_reattach;
  hello.weight = 1000;
  const auto packet = packet_of(hello);
  const auto back = wire::read_as<wire::Hello>(packet.data());
  CHECK(std::string(back.job) == "train");
  CHECK(back.requested_budget_bytes == 123);
  CHECK(back.flags == wire::hello_reattach);
  CHECK(back.weight == 1000);
}

// What docs/formats/wire.md shows byte by byte.
TEST_CASE("a budget message has the bytes of the worked example") {
  wire::Budget budget = wire::make<wire::Budget>();
  budget.budget_bytes = 2ULL << 30;
  budget.pool_limit_bytes = 64ULL << 30;
  const unsigned char expected[] = {0x54, 0x52, 0x52, 0x43, 1, 0, 18, 0, 16, 0, 0, 0, 0,    0, 0, 0,
                                    0,    0,    0,    0x80, 0, 0, 0,  0, 0,  0, 0, 0, 0x10, 0, 0, 0};
  REQUIRE(sizeof expected == sizeof budget);
  CHECK(std::memcmp(&budget, expected, sizeof expected) == 0);
}

TEST_CASE("malformed packets are refused") {
  const auto whole = packet_of(wire::make<wire::Hello>());
  SECTION("empty") { CHECK(judge({}) == EBADMSG); }
  SECTION("half a header") { CHECK(judge({whole.begin(), whole.begin() + 8}) == EBADMSG); }
  SECTION("cut off") { CHECK(judge({whole.begin(), whole.end() - 1}) == EBADMSG); }
  SECTION("longer than it says") {
    auto longer = whole;
    longer.push_back(std::byte{0});
    CHECK(judge(longer) == EBADMSG);
  }
  SECTION("longer than any packet") {
    CHECK(judge(std::vector<std::byte>(wire::max_packet_bytes + 1)) == EBADMSG);
  }
  SECTION("not ours") {
    CHECK(judge_changed_hello([](wire::Header& h) { h.magic = 0x20544547; }) == EBADMSG);
  }
  SECTION("a huge length") {
    CHECK(judge_changed_hello([](wire::Header& h) { h.length = 0xFFFFFFF0; }) == EBADMSG);
  }
  SECTION("a type that does not exist") {
    CHECK(judge_changed_hello([](wire::Header& h) { h.type = static_cast<wire::Type>(999); }) == EBADMSG);
  }
  SECTION("a type of another length") {
    CHECK(judge_changed_hello([](wire::Header& h) { h.type = wire::Type::goodbye; }) == EBADMSG);
  }
  SECTION("reserved bits") {
    CHECK(judge_changed_hello([](wire::Header& h) { h.reserved = 1; }) == EBADMSG);
  }
}

TEST_CASE("another version is told apart from garbage, so that it can be answered") {
  wire::Hello hello = wire::make<wire::Hello>();
  hello.header.version = 7;
  wire::Header header;
  CHECK(judge(packet_of(hello), &header) == EPROTO);
  CHECK(header.version == 7);
}

TEST_CASE("a control request is bounded") {
  const auto request = [](std::size_t bytes) {
    wire::Header header;
    header.type = wire::Type::control;
    header.length = static_cast<std::uint32_t>(bytes);
    auto packet = packet_of(header);
    packet.resize(sizeof header + bytes);
    return judge(packet);
  };
  CHECK(request(1) == 0);
  CHECK(request(wire::max_control_bytes) == 0);
  CHECK(request(0) == EBADMSG);
  CHECK(request(wire::max_control_bytes + 1) == EBADMSG);
}

TEST_CASE("text is cut to fit and always ends") {
  char field[8];
  std::memset(field, 'x', sizeof field);
  wire::copy_text(field, sizeof field, "a long name");
  CHECK(std::string(field) == "a long ");
  wire::copy_text(field, sizeof field, nullptr);
  CHECK(std::string(field).empty());
  CHECK(field[7] == '\0');
}
