#include "support.hpp"

#include "instruction_sets.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

#include <gradstep/distributed/communicator.hpp>
#include <gradstep/runtime/set_number.hpp>

namespace gradstep::c {

void refuse(gradstep_status code, detail::message_part where, detail::message_part given,
            detail::message_part expected) {
    refuse(code, detail::message(where, given, expected));
}
void refuse(gradstep_status code, std::string sentence) { throw refusal{code, std::move(sentence)}; }

void tell(gradstep_error* to, gradstep_status code, std::string_view sentence, int system_code) noexcept {
    if (to == nullptr) return;
    constexpr std::size_t before = offsetof(gradstep_error, message), behind = offsetof(gradstep_error, system_code);
    std::size_t const size = to->struct_size == 0 ? behind : std::min<std::size_t>(to->struct_size, sizeof *to);
    if (size < before) return;
    to->code = code;
    if (size >= behind + sizeof to->system_code) to->system_code = system_code;
    if (size == before) return;
    std::size_t length = std::min(sentence.size(), std::min(size, behind) - before - 1);
    while (length < sentence.size() && length != 0 && (static_cast<unsigned char>(sentence[length]) & 0xc0) == 0x80)
        --length; // not within a letter of UTF-8
    std::memcpy(to->message, sentence.data(), length);
    to->message[length] = 0;
}

gradstep_status tell_current(gradstep_error* to) noexcept {
    auto const told = [&](gradstep_status code, char const* sentence, int system_code = 0) {
        tell(to, code, sentence, system_code);
        return code;
    };
    try {
        throw;
    } catch (refusal const& refused) {
        return told(refused.code, refused.sentence.c_str());
    } catch (not_compiled_error const& e) {
        return told(GRADSTEP_NOT_COMPILED, e.what());
    } catch (value_error const& e) {
        return told(GRADSTEP_BAD_VALUE, e.what());
    } catch (size_error const& e) {
        return told(GRADSTEP_BAD_SIZE, e.what());
    } catch (buffer_error const& e) {
        return told(GRADSTEP_BAD_BUFFER, e.what());
    } catch (nonfinite_error const& e) {
        return told(GRADSTEP_NOT_FINITE, e.what());
    } catch (sequence_error const& e) {
        return told(GRADSTEP_BAD_SEQUENCE, e.what());
    } catch (io_error const& e) {
        return told(GRADSTEP_IO_ERROR, e.what(), e.system_code);
    } catch (executor_error const& e) {
        return told(GRADSTEP_EXECUTOR_FAILED, e.what());
    } catch (distributed::rank_error const& e) {
        return told(GRADSTEP_RANK_FAILED, e.what());
    } catch (memory_error const& e) {
        return told(GRADSTEP_OUT_OF_MEMORY, e.what());
    } catch (std::bad_alloc const&) {
        return told(GRADSTEP_OUT_OF_MEMORY, "the system gives no more memory");
    } catch (std::length_error const&) {
        return told(GRADSTEP_OUT_OF_MEMORY, "no memory is as large as this needs");
    } catch (std::exception const& e) {
        return told(GRADSTEP_INTERNAL_ERROR, e.what());
    } catch (...) {
        return told(GRADSTEP_INTERNAL_ERROR, "an exception of another kind");
    }
}

void require_instruction_set() {
    if (char const* const refused = chosen_instruction_set().refusal) refuse(GRADSTEP_BAD_CONFIG, refused);
}

optimizer_configuration with_numbers(optimizer_configuration config, char const* const* paths, double const* values,
                                     std::uint64_t n) {
    require(paths, "paths", n);
    require(values, "values", n);
    of_config([&] {
        for (std::uint64_t k = 0; k < n; ++k) {
            require(paths[k], "a path");
            set_number(config, paths[k], values[k]);
        }
    });
    return config;
}

scalar scalar_of(std::int32_t dtype, char const* name) {
    if (dtype < GRADSTEP_INT32 || dtype > GRADSTEP_BFLOAT16)
        refuse(GRADSTEP_UNSUPPORTED_TYPE, {name}, {dtype, " is out of range"}, {"one of enum gradstep_dtype, 0 to 7"});
    return static_cast<scalar>(dtype);
}
scalar storage_of(std::int32_t dtype, configuration const& policies) {
    scalar const type = scalar_of(dtype, "dtype");
    if (!detail::is_integer(type)) return type;
    if (!std::holds_alternative<add_delta>(policies.rule))
        refuse(GRADSTEP_UNSUPPORTED_TYPE, {"dtype"}, {detail::info_of(type).name, " is an integer"},
               {"float32, float64, float16 or bfloat16, or the rule add_delta"});
    return size_of(type) == 4 ? scalar::int32 : scalar::int64;
}

namespace {
// Whether the bit of a value is set in `given`. `differs` says that the value is not
// GRADSTEP_STEP_OPTIONS_INIT's; without its bit such a value is an error.
template <class Value>
bool has_bit(gradstep_step_options const& options, std::uint32_t bit, bool differs, char const* name, Value value,
             char const* name_of_bit) {
    if ((options.given & bit) != 0) return true;
    if (differs)
        refuse(GRADSTEP_BAD_VALUE, {"step_options.", name}, {value, " is given without its bit"},
               {name_of_bit, " in step_options.given"});
    return false;
}
} // namespace

step_options options_of(gradstep_step_options const* options, std::uint64_t seed) {
    step_options out;
    out.seed = seed;
    if (options == nullptr) return out;
    gradstep_step_options const given =
        known_part(options, gradstep_step_options(GRADSTEP_STEP_OPTIONS_INIT), "gradstep_step_options");
    if (given.reserved != 0 || given.reserved_too != 0 || given.reserved_last != 0)
        refuse(GRADSTEP_BAD_VALUE, {"step_options.reserved, reserved_too or reserved_last"}, {"not 0"}, {"0"});
    constexpr std::uint32_t all_bits = GRADSTEP_GIVEN_RATE | GRADSTEP_GIVEN_EPOCH | GRADSTEP_GIVEN_LOSS;
    if ((given.given & ~all_bits) != 0)
        refuse(GRADSTEP_BAD_VALUE, {"step_options.given"}, {given.given, " has bits that this library does not know"},
               {"a sum of GRADSTEP_GIVEN_RATE, GRADSTEP_GIVEN_EPOCH and GRADSTEP_GIVEN_LOSS"});
    if (given.zero_gradient != 0 && given.zero_gradient != 1)
        refuse(GRADSTEP_BAD_VALUE, {"step_options.zero_gradient"}, {given.zero_gradient, " is out of range"},
               {"0 or 1"});
    if ((given.given & GRADSTEP_GIVEN_LOSS) != 0 &&
        options->struct_size < offsetof(gradstep_step_options, loss) + sizeof given.loss)
        refuse(GRADSTEP_BAD_SIZE, {"gradstep_step_options.struct_size"},
               {options->struct_size, " is too small for GRADSTEP_GIVEN_LOSS"},
               {"sizeof(gradstep_step_options), ", sizeof given, " since ABI 0.3"});
    out.gradient_scale = given.gradient_scale;
    out.rate_scale = given.rate_scale;
    out.samples = given.samples;
    bool const has_rate = !std::isnan(given.rate), has_epoch = given.epoch >= 0;
    // Programs that were compiled with the header of ABI 0.1 cannot set bits.
    bool const has_bits = options->struct_size >= offsetof(gradstep_step_options, given) + sizeof given.given;
    if (!has_bits ? has_rate : has_bit(given, GRADSTEP_GIVEN_RATE, has_rate, "rate", given.rate, "GRADSTEP_GIVEN_RATE"))
        out.rate = given.rate;
    if (!has_bits
            ? has_epoch
            : has_bit(given, GRADSTEP_GIVEN_EPOCH, given.epoch != -1, "epoch", given.epoch, "GRADSTEP_GIVEN_EPOCH"))
        out.epoch = given.epoch;
    if (has_bit(given, GRADSTEP_GIVEN_LOSS, !std::isnan(given.loss), "loss", given.loss, "GRADSTEP_GIVEN_LOSS"))
        out.loss = given.loss;
    out.zero_gradient = given.zero_gradient == 1;
    return out;
}

load_options options_of(gradstep_load_options const* options) {
    load_options out;
    gradstep_load_options const given =
        known_part(options, gradstep_load_options(GRADSTEP_LOAD_OPTIONS_INIT), "gradstep_load_options");
    auto const flag = [](std::int32_t x, char const* name) {
        if (x != 0 && x != 1) refuse(GRADSTEP_BAD_VALUE, {"load_options.", name}, {x, " is out of range"}, {"0 or 1"});
        return x == 1;
    };
    if (flag(given.missing, "missing")) out.missing = missing_parameters::keep;
    if (flag(given.unexpected, "unexpected")) out.unexpected = unexpected_parameters::ignore;
    if (flag(given.rows, "rows")) out.rows = changed_rows::resize;
    require(given.renamed_from, "load_options.renamed_from", given.renamed_count);
    require(given.renamed_to, "load_options.renamed_to", given.renamed_count);
    for (std::uint64_t k = 0; k < given.renamed_count; ++k) {
        require(given.renamed_from[k], "a name of load_options.renamed_from");
        require(given.renamed_to[k], "a name of load_options.renamed_to");
        if (!out.renamed.emplace(given.renamed_from[k], given.renamed_to[k]).second)
            refuse(GRADSTEP_BAD_VALUE, {"load_options.renamed_from"},
                   {detail::in_quotes(given.renamed_from[k]), " is there twice"}, {"every name once"});
    }
    return out;
}

void write_text(std::string const& text, char* buffer, std::uint64_t bytes, std::uint64_t* written) {
    require(written, "written");
    require(buffer, "buffer", bytes);
    *written = text.size();
    if (bytes <= text.size())
        refuse(GRADSTEP_BAD_SIZE, {"buffer"}, {"has ", bytes, " bytes"}, {"at least ", text.size() + 1});
    std::memcpy(buffer, text.c_str(), text.size() + 1);
}

gradstep_slot slot_of(any_updater const& of, std::uint64_t index) {
    if (index >= of.slots())
        refuse(GRADSTEP_BAD_VALUE, {"index"}, {index, " is out of range"},
               {"below ", of.slots(), ", the number of slots"});
    if (of.facts().in_blocks)
        refuse(GRADSTEP_BAD_VALUE, {"slot"}, {"\"element\": \"block8\" keeps the state in blocks of 256 elements"},
               {"a saved state, which contains it"});
    gradstep_slot out = GRADSTEP_SLOT_INIT;
    auto const i = static_cast<std::size_t>(index);
    out.dtype = static_cast<std::int32_t>(of.state_type());
    std::strncpy(out.name, of.slot_name(i), sizeof out.name - 1);
    out.count = of.facts().is_row_slot(i) ? 1 : 0;
    return out;
}

gradstep_clock clock_of(gradstep::clock at) {
    gradstep_clock out{sizeof(gradstep_clock), 0, at.step, at.samples, at.epoch, {}};
    static_assert(sizeof out.state == sizeof at.state);
    std::copy(at.state.begin(), at.state.end(), out.state);
    return out;
}
gradstep::clock clock_of(gradstep_clock const* at) {
    require(at, "clock");
    gradstep_clock const given = known_part(at, gradstep_clock(GRADSTEP_CLOCK_INIT), "gradstep_clock");
    if (given.reserved != 0) refuse(GRADSTEP_BAD_VALUE, {"clock.reserved"}, {"not 0"}, {"0"});
    gradstep::clock out{given.step, given.samples, given.epoch};
    std::copy(std::begin(given.state), std::end(given.state), out.state.begin());
    return out;
}

std::uint64_t product(std::uint64_t rows, std::uint64_t width) {
    constexpr std::uint64_t most = PTRDIFF_MAX / sizeof(double);
    if (width != 0 && rows > most / width)
        refuse(GRADSTEP_BAD_SIZE, {"rows x width"}, {"no memory has ", rows, " x ", width, " elements"},
               {"at most ", most, " elements"});
    return rows * width;
}

} // namespace gradstep::c
