//! English names of time zones, as the Unicode CLDR has them.

use chrono_tz::Tz;

/// Names that zones share, for standard time and for daylight saving time. The first zone is the one that the names are read as.
pub(super) struct Names {
    pub short: (&'static str, &'static str),
    pub full: (&'static str, &'static str),
    pub zones: &'static [Tz],
}

const fn names(short: (&'static str, &'static str), full: (&'static str, &'static str), zones: &'static [Tz]) -> Names {
    Names { short, full, zones }
}

/// Of names that are equal, the first is read.
pub(super) const NAMES: &[Names] = &[
    names(
        ("UTC", "UTC"),
        ("Coordinated Universal Time", "Coordinated Universal Time"),
        &[Tz::UTC, Tz::Etc__UTC, Tz::Etc__UCT, Tz::UCT, Tz::Zulu, Tz::Etc__Zulu, Tz::Universal],
    ),
    names(
        ("GMT", "GMT"),
        ("Greenwich Mean Time", "Greenwich Mean Time"),
        &[Tz::GMT, Tz::Etc__GMT, Tz::Africa__Abidjan, Tz::Africa__Accra, Tz::Atlantic__Reykjavik],
    ),
    names(
        ("PST", "PDT"),
        ("Pacific Standard Time", "Pacific Daylight Time"),
        &[Tz::America__Los_Angeles, Tz::America__Vancouver, Tz::America__Tijuana, Tz::US__Pacific],
    ),
    names(
        ("MST", "MDT"),
        ("Mountain Standard Time", "Mountain Daylight Time"),
        &[Tz::America__Denver, Tz::America__Phoenix, Tz::America__Edmonton, Tz::America__Boise, Tz::US__Mountain, Tz::US__Arizona],
    ),
    names(
        ("CST", "CDT"),
        ("Central Standard Time", "Central Daylight Time"),
        &[
            Tz::America__Chicago,
            Tz::America__Winnipeg,
            Tz::America__Mexico_City,
            Tz::America__Costa_Rica,
            Tz::America__Guatemala,
            Tz::US__Central,
        ],
    ),
    names(
        ("EST", "EDT"),
        ("Eastern Standard Time", "Eastern Daylight Time"),
        &[Tz::America__New_York, Tz::America__Toronto, Tz::America__Detroit, Tz::America__Panama, Tz::America__Jamaica, Tz::US__Eastern],
    ),
    names(
        ("AKST", "AKDT"),
        ("Alaska Standard Time", "Alaska Daylight Time"),
        &[Tz::America__Anchorage, Tz::America__Juneau, Tz::US__Alaska],
    ),
    names(
        ("HST", "HDT"),
        ("Hawaii-Aleutian Standard Time", "Hawaii-Aleutian Daylight Time"),
        &[Tz::Pacific__Honolulu, Tz::America__Adak, Tz::US__Hawaii],
    ),
    names(("AST", "ADT"), ("Atlantic Standard Time", "Atlantic Daylight Time"), &[Tz::America__Halifax, Tz::America__Puerto_Rico]),
    names(("NST", "NDT"), ("Newfoundland Standard Time", "Newfoundland Daylight Time"), &[Tz::America__St_Johns]),
    names(("BRT", "BRST"), ("Brasilia Standard Time", "Brasilia Summer Time"), &[Tz::America__Sao_Paulo, Tz::Brazil__East]),
    names(("ART", "ARST"), ("Argentina Standard Time", "Argentina Summer Time"), &[Tz::America__Argentina__Buenos_Aires]),
    names(("COT", "COST"), ("Colombia Standard Time", "Colombia Summer Time"), &[Tz::America__Bogota]),
    names(("CLT", "CLST"), ("Chile Standard Time", "Chile Summer Time"), &[Tz::America__Santiago]),
    names(("PET", "PEST"), ("Peru Standard Time", "Peru Summer Time"), &[Tz::America__Lima]),
    names(("GMT", "BST"), ("Greenwich Mean Time", "British Summer Time"), &[Tz::Europe__London, Tz::GB]),
    names(("GMT", "IST"), ("Greenwich Mean Time", "Irish Standard Time"), &[Tz::Europe__Dublin]),
    names(
        ("CET", "CEST"),
        ("Central European Standard Time", "Central European Summer Time"),
        &[
            Tz::Europe__Paris,
            Tz::Europe__Berlin,
            Tz::Europe__Madrid,
            Tz::Europe__Rome,
            Tz::Europe__Amsterdam,
            Tz::Europe__Brussels,
            Tz::Europe__Vienna,
            Tz::Europe__Zurich,
            Tz::Europe__Stockholm,
            Tz::Europe__Oslo,
            Tz::Europe__Copenhagen,
            Tz::Europe__Prague,
            Tz::Europe__Warsaw,
            Tz::Europe__Budapest,
            Tz::Europe__Belgrade,
            Tz::Europe__Zagreb,
            Tz::Europe__Ljubljana,
            Tz::Europe__Bratislava,
            Tz::Europe__Luxembourg,
            Tz::Europe__Malta,
            Tz::Africa__Algiers,
            Tz::Africa__Tunis,
            Tz::CET,
        ],
    ),
    names(
        ("EET", "EEST"),
        ("Eastern European Standard Time", "Eastern European Summer Time"),
        &[
            Tz::Europe__Bucharest,
            Tz::Europe__Athens,
            Tz::Europe__Helsinki,
            Tz::Europe__Kyiv,
            Tz::Europe__Kiev,
            Tz::Europe__Sofia,
            Tz::Europe__Riga,
            Tz::Europe__Tallinn,
            Tz::Europe__Vilnius,
            Tz::Africa__Cairo,
            Tz::Asia__Beirut,
            Tz::EET,
        ],
    ),
    names(
        ("WET", "WEST"),
        ("Western European Standard Time", "Western European Summer Time"),
        &[Tz::Europe__Lisbon, Tz::Atlantic__Canary, Tz::WET],
    ),
    names(("MSK", "MSD"), ("Moscow Standard Time", "Moscow Summer Time"), &[Tz::Europe__Moscow, Tz::Europe__Minsk, Tz::Europe__Simferopol]),
    names(("TRT", "TRST"), ("Turkey Time", "Turkey Summer Time"), &[Tz::Europe__Istanbul]),
    names(("IST", "IST"), ("India Standard Time", "India Standard Time"), &[Tz::Asia__Kolkata, Tz::Asia__Calcutta, Tz::Asia__Colombo]),
    names(("JST", "JDT"), ("Japan Standard Time", "Japan Daylight Time"), &[Tz::Asia__Tokyo, Tz::Japan]),
    names(("KST", "KDT"), ("Korean Standard Time", "Korean Daylight Time"), &[Tz::Asia__Seoul]),
    names(
        ("CST", "CDT"),
        ("China Standard Time", "China Daylight Time"),
        &[Tz::Asia__Shanghai, Tz::Asia__Taipei, Tz::Asia__Macau, Tz::PRC],
    ),
    names(("HKT", "HKST"), ("Hong Kong Standard Time", "Hong Kong Summer Time"), &[Tz::Asia__Hong_Kong]),
    names(("SGT", "SGT"), ("Singapore Standard Time", "Singapore Standard Time"), &[Tz::Asia__Singapore, Tz::Singapore]),
    names(("MYT", "MYT"), ("Malaysia Time", "Malaysia Time"), &[Tz::Asia__Kuala_Lumpur]),
    names(("GST", "GST"), ("Gulf Standard Time", "Gulf Standard Time"), &[Tz::Asia__Dubai, Tz::Asia__Muscat]),
    names(("PKT", "PKST"), ("Pakistan Standard Time", "Pakistan Summer Time"), &[Tz::Asia__Karachi]),
    names(("BST", "BST"), ("Bangladesh Standard Time", "Bangladesh Summer Time"), &[Tz::Asia__Dhaka]),
    names(("NPT", "NPT"), ("Nepal Time", "Nepal Time"), &[Tz::Asia__Kathmandu]),
    names(("WIB", "WIB"), ("Western Indonesia Time", "Western Indonesia Time"), &[Tz::Asia__Jakarta]),
    names(("PST", "PDT"), ("Philippine Standard Time", "Philippine Summer Time"), &[Tz::Asia__Manila]),
    names(("ICT", "ICT"), ("Indochina Time", "Indochina Time"), &[Tz::Asia__Bangkok, Tz::Asia__Ho_Chi_Minh]),
    names(("IST", "IDT"), ("Israel Standard Time", "Israel Daylight Time"), &[Tz::Asia__Jerusalem, Tz::Asia__Tel_Aviv]),
    names(
        ("AST", "ADT"),
        ("Arabian Standard Time", "Arabian Daylight Time"),
        &[Tz::Asia__Riyadh, Tz::Asia__Kuwait, Tz::Asia__Qatar, Tz::Asia__Baghdad],
    ),
    names(
        ("AEST", "AEDT"),
        ("Australian Eastern Standard Time", "Australian Eastern Daylight Time"),
        &[Tz::Australia__Sydney, Tz::Australia__Melbourne, Tz::Australia__Brisbane, Tz::Australia__Hobart],
    ),
    names(
        ("ACST", "ACDT"),
        ("Australian Central Standard Time", "Australian Central Daylight Time"),
        &[Tz::Australia__Adelaide, Tz::Australia__Darwin],
    ),
    names(("AWST", "AWDT"), ("Australian Western Standard Time", "Australian Western Daylight Time"), &[Tz::Australia__Perth]),
    names(("NZST", "NZDT"), ("New Zealand Standard Time", "New Zealand Daylight Time"), &[Tz::Pacific__Auckland]),
    names(("SAST", "SAST"), ("South Africa Standard Time", "South Africa Standard Time"), &[Tz::Africa__Johannesburg]),
    names(("WAT", "WAST"), ("West Africa Standard Time", "West Africa Summer Time"), &[Tz::Africa__Lagos]),
    names(("EAT", "EAT"), ("East Africa Time", "East Africa Time"), &[Tz::Africa__Nairobi, Tz::Africa__Addis_Ababa]),
];
