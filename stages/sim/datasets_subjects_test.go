package sim

import "bytes"

// chronicle are sentences that any of the documents may hold.
func chronicle() []string {
	return []string{
		"In {m} the committee walked from {l} to {k} and made a list of everything that would have to be moved before winter.",
		"{p} kept a notebook about {t}, and most of what is known of that season comes from its pages.",
		"Nobody could say afterwards who had ordered {t}, but the invoice lay in the file and was paid without a word.",
		"The work at {l} took {x} days longer than planned, mainly because {u} arrived in the wrong order.",
		"{p} and {q} disagreed about {t} for the better part of a year, politely and mostly by letter.",
		"When the weather turned in {m}, {o} closed {l} for a week and used the time to count what was left in the stores.",
		"Visitors who came on a {d} were shown {t} first, since the light was best there in the forenoon.",
		"A note in the margin, in a hand that is not {p}'s, says that {t} should be looked at again in {n}.",
		"The minutes of {y} mention {l} only once, in a sentence about keys and who was allowed to carry them.",
		"It was {q} who proposed that {t} be labelled, and who then wrote every label by hand over {x} evenings.",
		"For a while {o} thought of selling {u}, but the offers were low and the idea was dropped before {m}.",
		"Those who remember {k} in those years speak of the smell of paint and of {t} standing under canvas.",
		"A second inspection followed in {n}; it found nothing that the first had missed, apart from a loose hinge.",
		"{p} asked for {x} more chairs and got {z}, which turned out to be enough.",
		"The road past {l} was under repair all through {m}, so deliveries came by way of {k} and were often late.",
		"Several letters ask about {t}; the answers are short, friendly and of little use to anybody now.",
		"After the meeting {q} stayed behind to copy the figures, because the ink of the original had begun to fade.",
		"The cost of {t} was shared between {o} and the parish, an arrangement that both sides later called fair.",
		"In the spring of {y} a storm took part of the roof at {k}, and {u} stood in the open until a tarpaulin was found.",
		"{p} trained {x} helpers that year, of whom {z} were still there when the books were closed.",
		"What the report calls minor damage to {t} would today be described with more care.",
		"On a {d} in {m} the telephone at {l} rang {x} times before anyone dared to answer it.",
		"The younger members wanted to photograph {u}; the older ones said that a drawing tells more.",
		"{o} bought {t} second hand, and {p} spent most of {n} finding out why the previous owner had been so glad to part with them.",
		"A visitor from {k} left a long comment in the book, half of it praise and half of it advice about {t}.",
		"The clock at {l} had stopped, and for {x} weeks everybody simply asked {q} what time it was.",
		"It is not clear whether {t} were ever used as intended; the instructions are still in their envelope.",
		"{p} wrote in {m} that patience was cheaper than paint, a remark that was quoted for years.",
		"The inventory of {y} lists {t} twice, under different names, which explains some of the later confusion.",
		"Snow lay at {k} until {m}, and the path to {l} had to be dug free every morning by whoever came first.",
		"By the end of the season {o} had answered {x} complaints, most of them about parking.",
		"Two boxes with drawings of {u} were found behind a cupboard at {l} and are now kept flat, between boards.",
		"{q} had learned the trade at {k} and saw at once that {t} had been fitted the wrong way round.",
		"No one was hurt when the scaffolding at {l} gave way, but {p} insisted on a full report all the same.",
		"The report for {m} is missing; the one for {n} begins in the middle of a sentence.",
		"At the suggestion of {p}, {t} were moved closer to the window, where they could be reached without a ladder.",
		"Money was short in {y}, and {o} put off the purchase of {u} until a better year.",
		"A group of pupils spent {x} afternoons at {l} drawing {t}, and some of the sheets still hang in the corridor.",
		"The insurance asked for photographs of {t} from all sides, which took {q} an entire {d}.",
		"In a long reply {p} thanked everyone, corrected two dates, and said nothing at all about {u}.",
		"There had been talk of a café at {k}, but the well gave too little water in {m}.",
		"Of the {x} proposals that came in, {z} dealt with {t} and the rest with the colour of the doors.",
		"The first thing a newcomer learns at {l} is where the switches are, and the second is not to touch {u}.",
		"{o} keeps a list of lenders, and {p} went through it twice before the exhibition in {n}.",
		"A cold {m} was followed by a wet {n}, and the cellar at {k} was under water for {x} days.",
		"Somebody had written the word later on the crate with {t}, without saying later than what.",
		"The new rules, agreed on a {d} and posted at {l} the day after, fill a single page.",
		"Whenever {t} came up for discussion, {q} reminded the meeting of what had happened in {y}.",
		"The carpenter from {k} looked at {u} for a long time and then named a price that nobody had expected.",
		"{p} retired in {m}, came back in {n} to explain the filing system, and then retired again.",
		"Several of {t} are on loan and will come back when the building at {k} is dry.",
		"The guest book shows that people from {x} countries came to {l} that summer, though not all of them signed legibly.",
		"As a rule {o} meets on the first {d} of the month; in {m} it met three times, because of {t}.",
		"The drawing by {q} shows {l} from the north, with {u} in the foreground and no people at all.",
		"In the end it was decided to repair {t} rather than to replace them, which proved cheaper and slower.",
		"A draft of this chapter had a longer passage about {k}, which {p} asked us to shorten.",
		"The keys to {l} hang where they have always hung, beside a card with the numbers of {p} and {q}.",
		"Looking back, {q} called {y} the year of {t}, and nobody at the table disagreed.",
		"Every {d} somebody checks {u} and writes the result in a column that has run, page after page, since {y}.",
		"The rest of {m} passed without anything that the log thought worth a line.",
		"Before {t} could be cleaned, {o} needed a permit, and the permit needed a plan of {l}.",
		"{p} is said to have known every bolt of {u} by name; {q} says that this is only slightly exaggerated.",
	}
}

func subjects() []subject {
	return []subject{{
		id: "case-glasshouse", title: "Report on the glasshouse at Ellerby", body: "the trust",
		people: []string{"Ines Marlow", "Peter Aske", "Dorothea Finch", "Samuel Broad", "Ruth Tallis", "Owen Carrick"},
		places: []string{"the north wing", "the fern room", "the potting yard", "the orchid house", "the boiler room", "the west gate"},
		things: []string{"the cast-iron benches", "the palm tubs", "the roller blinds", "the brass valves", "the seed drawers", "the watering cans", "the heating pipes"},
		own: []string{
			"The tall palms were turned a quarter every fortnight so that they would not lean towards {l}.",
			"A late frost in {m} cost {o} most of the young citrus, and {p} began to sleep in the fern room.",
			"Panes were cut at {k} and carried across the lawn by two people who walked in step.",
		},
		facts: []statement{
			{"opening_date", "According to the stone above the door", "=14 March 1887", "14 March 1887"},
			{"head_gardener", "Through all of these years", "=Marta Lindqvist", "Marta Lindqvist"},
			{"floor_area", "Measured in square metres", "4,310", 4310},
			{"yearly_attendance", "Counted at the gate", "=182,450", 182450},
			{"winter_temperature", "In degrees Celsius", "13.5", 13.5},
		},
	}, {
		id: "case-lighthouse", title: "The light on Skarholm: a history of its restoration", body: "the harbour board",
		people: []string{"Anders Holm", "Signe Rusk", "Captain Dahl", "Liv Aamot", "Jon Berg", "Karin Moe"},
		places: []string{"the lamp room", "the lower landing", "the oil store", "the keeper's kitchen", "the slipway", "the signal mast"},
		things: []string{"the prisms", "the iron stairs", "the storm shutters", "the rope ladders", "the fog bells", "the oil cans", "the window frames"},
		own: []string{
			"The boat could land on perhaps one day in three, and everything heavy had to wait for {m}.",
			"Gulls had nested behind {t} for so long that {p} refused to have them disturbed before {n}.",
			"Salt had eaten into the mortar on the seaward side as deep as a hand.",
		},
		facts: []statement{
			{"lamp_range", "In nautical miles", "22.5", 22.5},
			{"automation_date", "As the last page of the log records", "=9 November 1984", "9 November 1984"},
			{"last_keeper", "", "=Tomas Eide", "Tomas Eide"},
			{"tower_height", "In metres above the rock", "41", 41},
			{"restoration_cost", "In crowns and without tax", "=6,382,000", 6382000},
			{"flash_character", "On the charts", "two white flashes every fifteen seconds", "two white flashes every fifteen seconds"},
		},
	}, {
		id: "case-ferry", title: "Findings of the ferry inquiry, public version", body: "the panel",
		people: []string{"Mr Laurie", "Ms Adeyemi", "Captain Strand", "Mrs Pell", "Dr Whitcombe", "Mr Ferris"},
		places: []string{"the outer pier", "the car deck", "the ticket hall", "the bridge", "the engine control room", "the mainland terminal"},
		things: []string{"the loading plans", "the mooring lines", "the duty rosters", "the bow thrusters", "the passenger lists", "the radar plots", "the life jackets"},
		own: []string{
			"Passengers were told of a technical matter, a phrase that {o} found neither false nor helpful.",
			"The recording from {l} ends in the middle of a question about {t}.",
			"Tea was handed out on {k} while the crew went through the checklist a second time.",
		},
		facts: []statement{
			{"vessel_name", "As entered in the register", "Northern Petrel", "Northern Petrel"},
			{"inquiry_chair", "Appointed by the minister", "=Judith Okafor", "Judith Okafor"},
			{"sailing_date", "", "=2 February 2011", "2 February 2011"},
			{"passenger_count", "By the list that was found later", "=214", 214},
			{"total_delay", "In minutes, added up over the whole day", "=397", 397},
		},
	}, {
		id: "case-archive", title: "Moving the county archive: closing account", body: "the archive",
		people: []string{"Helen Voss", "Gareth Pugh", "Amina Sule", "Robert Kray", "Ottilie Brandt", "Frank Moody"},
		places: []string{"the old registry", "the strong room", "the reading room", "the loading bay", "the cold store", "the map gallery"},
		things: []string{"the parish registers", "the tithe maps", "the glass negatives", "the deed boxes", "the card indexes", "the wax seals", "the rolling shelves"},
		own: []string{
			"Every box got a number, a colour and a place on the plan before anyone was allowed to lift it.",
			"The smell of {l} came along to the new building and has never quite left it.",
			"Readers were patient: in {m} they were served from a trolley, in {n} from a van.",
		},
		facts: []statement{
			{"shelf_length", "In kilometres", "12.75", 12.75},
			{"project_manager", "From the first plan to the last van", "=Yusuf Demir", "Yusuf Demir"},
			{"reopening_date", "", "=3 October 2016", "3 October 2016"},
			{"crate_count", "When the last lorry had been unloaded", "=8,964", 8964},
			{"oldest_volume", "Now in a case of its own", "the Harrow Rental of 1562", "the Harrow Rental of 1562"},
			{"insured_sum", "In pounds", "=24,500,000", 24500000},
		},
	}, {
		id: "case-observatory", title: "Twenty seasons at Monte Verano", body: "the institute",
		people: []string{"Dr Salgado", "Beatriz Leal", "Nuno Prates", "Dr Okada", "Irene Whyte", "Paulo Reis"},
		places: []string{"the main dome", "the spectrograph room", "the south ridge", "the workshop", "the dormitory", "the weather station"},
		things: []string{"the guide cameras", "the filter wheels", "the plate holders", "the dome motors", "the cooling pumps", "the cable drums", "the finding charts"},
		own: []string{
			"Dust from the desert reached {l} twice that year, and on both nights the shutters stayed closed.",
			"{q} could tell from the sound of {t} alone whether it was worth getting up.",
			"The list of targets was always longer than the night, even in {m}.",
		},
		facts: []statement{
			{"mirror_diameter", "In metres", "1.82", 1.82},
			{"survey_director", "Since the second season", "Leonor Vasques", "Leonor Vasques"},
			{"first_light_date", "After two nights of cloud", "=23 June 1998", "23 June 1998"},
			{"catalogue_size", "At the last count", "51,377", 51377},
		},
	}, {
		id: "case-dairy", title: "Members' letter of the Upper Lenne dairy cooperative", body: "the cooperative",
		people: []string{"Josef Hallermann", "Agnes Thiel", "Karl Ostrop", "Martha Brüning", "Lukas Wern", "Hanne Kolb"},
		places: []string{"the ripening cellar", "the weighing ramp", "the laboratory", "the lower dairy", "the cheese shop", "the tanker yard"},
		things: []string{"the copper vats", "the milk churns", "the cheese moulds", "the cooling coils", "the sample bottles", "the pasture maps", "the tanker hoses"},
		own: []string{
			"The dry summer showed in the butter, which was paler than in other years, and in the mood at {l}.",
			"{p} reminded the meeting that a cow does not read the price list.",
			"Hay was bought in from beyond {k}, at a price that nobody cares to remember.",
		},
		facts: []statement{
			{"membership", "At the end of the year", "=143", 143},
			{"base_price", "In euros a kilogram", "0.465", 0.465},
			{"audit_date", "", "=17 January 2023", "17 January 2023"},
			{"chief_auditor", "On behalf of the federation", "=Rosalie Emmerich", "Rosalie Emmerich"},
			{"reserve_fund", "In euros", "1,275,000", 1275000},
		},
	}, {
		id: "case-rescue", title: "Glenmore rescue team: the year in review", body: "the team",
		people: []string{"Isla Munro", "Callum Reid", "Fergus Baird", "Shona Kerr", "Rory Lang", "Eilidh Gunn"},
		places: []string{"the upper corrie", "the base hut", "the bealach", "the east ridge", "the forest car park", "the footbridge"},
		things: []string{"the stretchers", "the radio sets", "the climbing ropes", "the search lamps", "the casualty bags", "the avalanche probes", "the route cards"},
		own: []string{
			"Most calls came on a {d}, and most of those after the last bus had gone.",
			"Mist held the helicopter at {k} for two hours while {p} led the party up on foot.",
			"The dogs found the rucksack first and its owner, asleep and well, an hour later.",
		},
		facts: []statement{
			{"callout_total", "Including the false alarms", "=86", 86},
			{"team_leader", "For the ninth year running", "Catriona Blyth", "Catriona Blyth"},
			{"longest_search", "In hours", "=31.5", 31.5},
			{"helicopter_base", "Since the move", "Inverlochan", "Inverlochan"},
			{"inspection_date", "", "=28 August 2019", "28 August 2019"},
			{"volunteer_hours", "Added up from the log sheets", "=7,218", 7218},
		},
	}, {
		id: "case-printers", title: "Merrow and Sons, printers: notes for a history", body: "the firm",
		people: []string{"Edith Merrow", "Walter Merrow", "Abel Quince", "Nora Stubbs", "Percy Lamb", "Harriet Dove"},
		places: []string{"the composing room", "the paper loft", "the bindery", "the counting house", "the machine hall", "the shop in Vine Street"},
		things: []string{"the type cases", "the proof presses", "the ink rollers", "the order books", "the woodblocks", "the paper reams", "the stitching frames"},
		own: []string{
			"Apprentices began with sweeping, went on to sorting, and touched no type before their second {m}.",
			"A hymn book with the ninth verse upside down is still shown to those who ask {q} nicely.",
			"Ink was mixed at {l} by a recipe that {p} carried in the head and took along.",
		},
		facts: []statement{
			{"founding_year", "By the sign over the shop", "1794", 1794},
			{"last_foreman", "", "=Gilbert Rooke", "Gilbert Rooke"},
			{"closing_date", "As the notice on the door said", "=30 June 1971", "30 June 1971"},
			{"largest_run", "In copies", "=156,000", 156000},
			{"paper_weight", "In grams a square metre", "112.5", 112.5},
		},
	}}
}

// quick is the small set of the quickstart plan.
func quick() []byte {
	var out bytes.Buffer
	for _, c := range []struct {
		id, text string
		facts    []statement
	}{
		{"quick-bridge", "The old footbridge over the Lenne was closed in spring and opened again in late summer. %s Schoolchildren painted the railings. %s Nobody misses the loose plank. %s", []statement{
			{"span_length", "In metres", "48.5", 48.5}, {"chief_engineer", "", "=Ida Sommer", "Ida Sommer"}, {"reopening_date", "", "=21 August 2022", "21 August 2022"},
		}},
		{"quick-orchard", "Wet weather made for a slow start in the orchard at Halden. %s The wasps came early. %s Cider will be pressed in the old barn as always. %s", []statement{
			{"harvest_weight", "In kilograms", "=12,340", 12340}, {"tenant_farmer", "This year", "Per Nyland", "Per Nyland"}, {"best_variety", "By the jury's vote", "=Red Gravenstein", "Red Gravenstein"},
		}},
		{"quick-choir", "Tickets for the spring concert were gone within a day. %s The organ had been tuned the week before. %s An encore had not been rehearsed and went well. %s", []statement{
			{"singer_count", "", "=64", 64}, {"guest_soloist", "", "=Amara Nwosu", "Amara Nwosu"}, {"concert_date", "", "=11 May 2024", "11 May 2024"},
		}},
		{"quick-weather", "Thunder was heard over the valley on four evenings. %s The rain gauge at the mill had to be emptied twice. %s Swallows left a week early. %s", []statement{
			{"monthly_rainfall", "In millimetres", "=182.4", 182.4}, {"warmest_day", "", "=7 July 2023", "7 July 2023"}, {"station_keeper", "", "Olga Brandes", "Olga Brandes"},
		}},
		{"quick-library", "Saturday opening has been popular since it began. %s New lamps were fitted over the long tables. %s A lost umbrella awaits its owner. %s", []statement{
			{"loan_total", "Over the year", "=9,871", 9871}, {"branch_librarian", "", "Simon Achebe", "Simon Achebe"}, {"shelf_count", "After the works", "26", 26},
		}},
	} {
		text := c.text
		for _, f := range c.facts {
			text = replaceFirst(text, "%s", f.sentence())
		}
		writeRow(&out, newRow(c.id, text, c.facts, "evidence", "quick"))
	}
	return out.Bytes()
}

func replaceFirst(text, mark, with string) string {
	return string(bytes.Replace([]byte(text), []byte(mark), []byte(with), 1))
}
